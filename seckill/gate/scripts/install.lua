-- install: set up a sale's gate from Postgres, whose row lock the caller holds.
--
-- KEYS  1 gate  2 tickets  3 journal  4 takeovers
-- ARGV  1 epoch  2 state  3 start_ms  4 end_ms  5 durable stock  6 qmax  7 '1' if all owners have just been written into the tickets
--
-- Returns 1; or 0 when the gate's epoch is as new already: nothing changes, so a second run is a no-op; or -1 when field 0
-- of tickets, which is no user's, is missing. The caller writes it before it reads the users with orders from Postgres, so
-- Redis has lost these users since. The tickets in the journal are counted here. They are not orders yet, so they are
-- subtracted from the durable stock. The keys expire a day after the sale's end, or after now if the sale was moved
-- into the past: the tickets in the journal are still to be settled.
local epoch = tonumber(ARGV[1])
local has = redis.call('HGET', KEYS[1], 'epoch')
if has and tonumber(has) >= epoch then
    return 0
end
if redis.call('HEXISTS', KEYS[2], '0') == 0 then
    return -1
end
local in_flight, from, page = 0, '-', nil
repeat
    page = redis.call('XRANGE', KEYS[3], from, '+', 'COUNT', 500)
    for _, entry in ipairs(page) do
        from = '(' .. entry[1]
        for f = 1, #entry[2], 2 do
            if entry[2][f] == 'n' then in_flight = in_flight + (tonumber(entry[2][f + 1]) or 0) end
        end
    end
until #page < 500
local stock = math.max(0, tonumber(ARGV[5]) - in_flight)
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'state', ARGV[2], 'start_ms', ARGV[3], 'end_ms', ARGV[4],
    'stock', string.format('%d', stock), 'qmax', ARGV[6], 'in_flight', string.format('%d', in_flight))
redis.call('HINCRBY', KEYS[1], 'ops', 1)
if ARGV[7] == '1' then
    redis.call('HSET', KEYS[1], 'seeded', ARGV[1])
end
local last = string.format('%d', math.max(tonumber(ARGV[4]), tonumber(redis.call('TIME')[1]) * 1000) + 86400000)
for i = 1, 4 do redis.call('PEXPIREAT', KEYS[i], last) end
return 1
