-- path: the big gate. Decides whether a user gets a hidden address, and until when.
--
-- KEYS  1 gate  2 tickets  3 paths
-- ARGV  1 user  2 life of an address in ms  3 addresses alive per unit left
--
-- Returns {verdict, number}:
--   OK <expiry>     ms since 1970 by this server's clock
--   FULL <ms>       as many addresses are alive as the units left allow; the next one expires in so many ms
--   NOGATE, CLOSED, PAUSED, EARLY <ms>, ENDED, SOLDOUT   as in reserve
-- An address is counted until it is used (reserve removes it) or expires. A user who has a ticket already gets an address
-- that is not counted: it buys nothing but that same ticket. Safe to run twice: the second run refreshes the first.
local gate = redis.call('HMGET', KEYS[1], 'state', 'stock', 'start_ms', 'end_ms')
if not (gate[1] and gate[2] and gate[3] and gate[4]) then
    return {'NOGATE', 0}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if gate[1] == 'closed' then
    return {'CLOSED', 0}
elseif now >= tonumber(gate[4]) then
    return {'ENDED', 0}
elseif now < tonumber(gate[3]) then
    return {'EARLY', tonumber(gate[3]) - now}
elseif gate[1] ~= 'published' then
    return {'PAUSED', 0}
end
local user, expiry, stock = ARGV[1], now + tonumber(ARGV[2]), tonumber(gate[2])
local has = redis.call('HGET', KEYS[2], user)
if has and string.sub(has, 1, 1) ~= 'X' then
    return {'OK', expiry}
end
if stock <= 0 then
    return {'SOLDOUT', 0}
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now))
if redis.call('ZCARD', KEYS[3]) >= math.max(64, stock * tonumber(ARGV[3])) and not redis.call('ZSCORE', KEYS[3], user) then
    local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    return {'FULL', tonumber(first[2]) - now}
end
redis.call('ZADD', KEYS[3], string.format('%d', expiry), user)
-- The set expires with its last address. Another process may grant longer ones than this.
local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[3], string.format('%d', tonumber(last[2])))
return {'OK', expiry}
