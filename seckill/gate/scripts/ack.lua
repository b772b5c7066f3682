-- ack: acknowledge tickets whose results Postgres has committed.
--
-- KEYS  1 gate  2 tickets  3 journal
-- ARGV  for each of at most 500 tickets: its journal entry, its user, the ticket (not read with an O), the outcome
--       (O<order id> or X<reason>)
--
-- Returns how many entries left the journal. An O is always written. An X is written only where the user still has this
-- very ticket, so a late result can't overwrite a newer ticket. Missing keys stay missing. Safe to run twice. XACK comes
-- first: a Redis that is out of memory refuses commands that take memory, but not after one that takes none.
local known = redis.call('EXISTS', KEYS[2]) == 1
local entries, orders = {}, {}
for i = 1, #ARGV, 4 do entries[#entries + 1] = ARGV[i] end
redis.call('XACK', KEYS[3], 'settle', unpack(entries))
local gone = redis.call('XDEL', KEYS[3], unpack(entries))
for i = 1, #ARGV, 4 do
    local user, ticket, outcome = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    if string.sub(outcome, 1, 1) == 'O' then
        orders[#orders + 1], orders[#orders + 2] = user, outcome
    elseif known and redis.call('HGET', KEYS[2], user) == 'Q' .. ticket then
        redis.call('HSET', KEYS[2], user, outcome)
    end
end
if known and #orders > 0 then
    redis.call('HSET', KEYS[2], unpack(orders))
end
if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], 'ops', 1)
end
return gone
