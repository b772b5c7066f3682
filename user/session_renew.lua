-- Renew sessions that are in use. A session that has ended stays ended: no command here writes a record or
-- lists a session, they only move times of what is there.
-- KEYS     of each session: its record, the zset and the hash of its user (see session_start.lua)
-- ARGV[1]  the least step in ms: a session that would win less is not written; up to the last expiry, two seconds are enough
-- ARGV     then of each session: the hash of its token, the new expiry, and its last possible one, in ms since 1970
-- returns  the number of sessions that were renewed
-- Safe to run twice: the second run finds the new expiry and writes nothing.
local time, step, renewed = redis.call('TIME'), tonumber(ARGV[1]), 0
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- expiry returns when a key expires; nil if the key does not exist or never expires.
local function expiry(key)
    local left = redis.call('PTTL', key)
    return left >= 0 and now + left or nil
end

for i = 1, #KEYS, 3 do
    local at = i + 1
    local token, new, last = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local old = expiry(KEYS[i])
    if old and new - old >= (new == last and math.min(step, 2000) or step) then
        for _, key in ipairs({KEYS[i + 1], KEYS[i + 2]}) do
            local ends = expiry(key)
            if ends and ends < new then
                redis.call('PEXPIREAT', key, new)
            end
        end
        redis.call('ZADD', KEYS[i + 1], 'XX', new, token)
        redis.call('PEXPIREAT', KEYS[i], new)
        renewed = renewed + 1
    end
end
return renewed
