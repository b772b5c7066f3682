-- fix: correct the gate's stock from Postgres, by compare-and-set.
--
-- KEYS  1 gate  2 journal
-- ARGV  1 epoch and 2 ops as they were before sales.stock was read  3 the sales.stock read
--
-- Returns {1, drift}, or {0, 0} when the gate is missing or has changed since. With an empty journal the stock read is
-- exact and is set. Otherwise each ticket in the journal may or may not be subtracted in it yet: the gate is raised to
-- what is surely left, and lowered to what is left at most. Safe to run twice.
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'ops', 'stock', 'in_flight')
if gate[1] ~= ARGV[1] or gate[2] ~= ARGV[2] or not gate[3] or not gate[4] then
    return {0, 0}
end
local waiting = redis.call('XLEN', KEYS[2]) > 0 and tonumber(gate[4]) or 0
local had, durable = tonumber(gate[3]), tonumber(ARGV[3])
local stock = math.min(math.max(had, durable - waiting), durable)
if stock ~= had then
    redis.call('HSET', KEYS[1], 'stock', string.format('%d', stock))
end
return {1, stock - had}
