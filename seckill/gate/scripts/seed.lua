-- seed: write users with an order into the gate's tickets.
--
-- KEYS  1 gate  2 tickets
-- ARGV  1 the bypasses of the sale whose buyers are all written with this call, or 0
--       then for each of at most 1000 users: the user, O<order id>
--
-- Returns nothing. An order replaces any value of the user: nothing is newer. The gate keeps the number of bypasses, so a Redis
-- that goes back to older data forgets both. A missing gate stays missing. Safe to run twice.
local known = table.remove(ARGV, 1)
if #ARGV > 0 then
    redis.call('HSET', KEYS[2], unpack(ARGV))
end
if known ~= '0' and redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HSET', KEYS[1], 'known', known)
end
