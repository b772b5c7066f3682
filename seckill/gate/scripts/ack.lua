-- ack: store the results of tickets, and remove each journal entry whose tickets all have one.
--
-- KEYS  1 gate  2 tickets  3 journal  4 takeovers
-- ARGV  1 the number of entries
--       then for each entry: its id, the nonce of one of its tickets, the number of its tickets below
--       then for each of at most about 500 tickets: its user, the ticket (not read with an O), the outcome (O<order id> or X<reason>)
--
-- Returns how many tickets left the journal. Postgres must have committed the results. An entry of which fewer tickets are given
-- than it has stays. The nonce tells an entry from a lost one with its id: a Redis that fails over to an older copy with a slower clock
-- uses ids again. With '' the entry is removed whatever it has. An O is always written. An X is written only where the user still
-- has this very ticket, so a late result can't overwrite a newer ticket. Missing keys stay missing. Safe to run twice. An XDEL comes
-- first, of nothing: a Redis that is out of memory refuses commands that take memory, but not after a write that takes none.
redis.call('XDEL', KEYS[3], '0-0')
local known = redis.call('EXISTS', KEYS[2]) == 1
local last, gone, left = 3 * tonumber(ARGV[1]) + 1, 0, {}
for i = 2, last, 3 do
    local id, nonce, given = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
    local entry, is = redis.call('XRANGE', KEYS[3], id, id)[1], {}
    if entry then
        for f = 1, #entry[2], 2 do is[entry[2][f]] = entry[2][f + 1] end
    end
    local n = tonumber(string.match(is.n or '', '^%d%d?%d?$') or 0)
    if entry and (nonce == '' or n <= given and string.find(is.tickets or '', nonce, 1, true)) then
        left[#left + 1] = id
        gone = gone + n
    end
end
if #left > 0 then
    redis.call('XDEL', KEYS[3], unpack(left))
    redis.call('HDEL', KEYS[4], unpack(left))
end
local orders = {}
for i = last + 1, #ARGV, 3 do
    local user, ticket, outcome = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if string.sub(outcome, 1, 1) == 'O' then
        orders[#orders + 1], orders[#orders + 2] = user, outcome
    elseif known and redis.call('HGET', KEYS[2], user) == 'Q' .. ticket then
        redis.call('HSET', KEYS[2], user, outcome)
    end
end
if known and #orders > 0 then
    redis.call('HSET', KEYS[2], unpack(orders))
end
local gate = redis.call('HMGET', KEYS[1], 'ops', 'in_flight')
if gate[2] then
    redis.call('HSET', KEYS[1], 'in_flight', string.format('%d', math.max(0, tonumber(gate[2]) - gone)))
end
if gate[1] then
    redis.call('HINCRBY', KEYS[1], 'ops', 1)
end
return gone
