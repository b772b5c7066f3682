-- End the sessions of a user, and the log-ins under way.
-- KEYS[1]  zset of the user: hash of a token -> expiry of its session, in ms since 1970
-- KEYS[2]  hash of the user: hash of a token -> "generation address client" of its session;
--          "generation" -> the highest generation of the account that Redis knows
-- ARGV[1]  new generation of the account: sessions that began with a lower one end. 0 if it is not
--          known: all sessions end
-- ARGV[2]  hash of the token whose session goes on, or ""
-- ARGV[3]  time until which the generation is kept, in ms since 1970
-- ARGV[4]  prefix of the keys of records
-- returns  the hashes of the tokens whose sessions ended
-- Safe to run twice: the second run finds nothing to end. Of two runs the higher generation stays.
local generation, kept, ended = tonumber(ARGV[1]), ARGV[2], {}
if generation > tonumber(redis.call('HGET', KEYS[2], 'generation') or 0) then
    redis.call('HSET', KEYS[2], 'generation', ARGV[1])
end
redis.call('PEXPIREAT', KEYS[2], ARGV[3])
for _, token in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local begun, rest = string.match(redis.call('HGET', KEYS[2], token) or '0 ', '^(%d+) (.*)$')
    local later = generation > 0 and tonumber(begun) >= generation -- it began after the change
    if token == kept and not later then
        redis.call('HSET', KEYS[2], token, ARGV[1] .. ' ' .. rest)
    elseif not later then
        redis.call('DEL', ARGV[4] .. token)
        redis.call('ZREM', KEYS[1], token)
        redis.call('HDEL', KEYS[2], token)
        table.insert(ended, token)
    end
end
return ended
