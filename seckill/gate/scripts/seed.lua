-- seed: write users with an order into the gate's tickets.
--
-- KEYS  1 gate  2 tickets
-- ARGV  1 the bypasses of the sale whose buyers are all written with this call, or 0
--       2 the epoch in which all owners are written with this call, or 0
--       3 the ops that the gate must have at least, or 0 for no such bound: those from before the owners were read, and one for each
--         call with a bound since
--       then for each of at most 1000 users: the user, O<order id>
--
-- Returns 1, or 0 when the gate has fewer ops: Redis went back meanwhile, and may have lost owners that were written. Then it keeps
-- neither number. A call with a bound counts in ops, so that the next one sees whether this one is lost. An order replaces any value of the user: nothing is newer. The gate keeps the number of
-- bypasses, so a Redis that goes back to older data forgets both. A missing gate stays missing. Safe to run twice.
local known, seeded, before = ARGV[1], ARGV[2], tonumber(ARGV[3])
if #ARGV > 3 then
    redis.call('HSET', KEYS[2], unpack(ARGV, 4))
end
local ops = redis.call('HGET', KEYS[1], 'ops')
if not ops then
    return 1
end
if tonumber(ops) < before then
    return 0
end
if before > 0 then
    redis.call('HINCRBY', KEYS[1], 'ops', 1)
end
if known ~= '0' then
    redis.call('HSET', KEYS[1], 'known', known)
end
if seeded ~= '0' then
    redis.call('HSET', KEYS[1], 'seeded', seeded)
end
return 1
