-- Take tokens from a bucket that refills evenly, or put them back.
-- KEYS[1]  string: the time at which the bucket is full again, in ms since 1970 by this server's clock; it expires then
-- ARGV[1]  ms in which one token refills
-- ARGV[2]  tokens of a full bucket
-- ARGV[3]  number of tokens to take; below zero, to put back
-- returns  0   done
--          ms  the bucket does not have them: it will in that many ms, and nothing has changed
-- No bucket is emptier than empty: after this server's clock was set back, the wait is not longer than before.
-- Anything else in the key counts as a full bucket. Safe to run twice: a try whose reply was lost may count twice.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local token, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1])) or now
full = math.max(now, math.min(full, now + token * size)) + token * tonumber(ARGV[3])
local wait = full - (now + token * size)
if wait > 0 then
    return wait
elseif full > now then
    redis.call('SET', KEYS[1], string.format('%d', full), 'PX', string.format('%d', full - now))
else
    redis.call('DEL', KEYS[1])
end
return 0
