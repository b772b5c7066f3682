-- install: set up a sale's gate from Postgres, whose row lock the caller holds.
--
-- KEYS  1 gate  2 tickets  3 journal
-- ARGV  1 epoch  2 state  3 start_ms  4 end_ms  5 durable stock  6 qmax
--
-- Returns 1; or 0 when the gate's epoch is as new already: nothing changes, so a second run is a no-op; or -1 when field 0
-- of tickets, which is no user's, is missing. The caller writes it before it reads the users with orders from Postgres, so
-- Redis has lost these users since. The tickets in the journal are not orders yet, so they are subtracted from the durable
-- stock. These three keys expire a day after the sale's end.
local epoch = tonumber(ARGV[1])
local has = redis.call('HGET', KEYS[1], 'epoch')
if has and tonumber(has) >= epoch then
    return 0
end
if redis.call('HEXISTS', KEYS[2], '0') == 0 then
    return -1
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[3], 'settle', '0', 'MKSTREAM')
if type(made) == 'table' and made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
    return made
end
local stock = math.max(0, tonumber(ARGV[5]) - redis.call('XLEN', KEYS[3]))
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'state', ARGV[2], 'start_ms', ARGV[3], 'end_ms', ARGV[4],
    'stock', string.format('%d', stock), 'qmax', ARGV[6])
redis.call('HINCRBY', KEYS[1], 'ops', 1)
local last = string.format('%d', tonumber(ARGV[4]) + 86400000)
for i = 1, 3 do redis.call('PEXPIREAT', KEYS[i], last) end
return 1
