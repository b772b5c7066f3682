-- Ban users, and list the bans.
-- KEYS[1]  zset: user -> the end of the ban, in ms since 1970 by this server's clock
-- ARGV[1]  ms that a ban lasts
-- ARGV[2]  number of bans to list at most
-- ARGV[3], ...  users to ban; a user who is banned already keeps that ban
-- returns  {{user, ...}, {user, ms, ...}}: the users whom this call banned, and all bans with the ms that are left
-- Safe to run twice: the second run bans no one. Bans that are over leave with the next new one, a thousand at most.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local begun, bans = {}, {}
for i = 3, #ARGV do
    if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or 0) <= now then
        redis.call('ZADD', KEYS[1], string.format('%d', now + tonumber(ARGV[1])), ARGV[i])
        table.insert(begun, ARGV[i])
    end
end
if #begun > 0 then
    for _, user in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now), 'LIMIT', 0, 1000)) do
        redis.call('ZREM', KEYS[1], user)
    end
    redis.call('PEXPIREAT', KEYS[1], string.format('%d', now + 100 * 3600000)) -- no ban is longer
end
local listed = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[2]))
for i = 1, #listed, 2 do
    table.insert(bans, listed[i])
    table.insert(bans, string.format('%d', tonumber(listed[i + 1]) - now))
end
return {begun, bans}
