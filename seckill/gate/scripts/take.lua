-- take: takes the answer to a session's sum for judging, so that each sum has one try.
--
-- KEYS  1 captcha
-- ARGV  1 the answer that was given
--
-- Returns {kept, stale}: the value as draw writes it, '' if there is no sum. stale is 1 if the given answer is that of a sum which
-- a newer one replaced, and not that of the newest. It tells nothing about the newest sum, which is then not used up.
-- Run twice, it finds no sum the second time.
local kept, words = redis.call('GET', KEYS[1]), 0
if not kept then
    return {'', 0}
end
for word in string.gmatch(kept, '%S+') do
    words = words + 1
    if word == ARGV[1] and words == 1 then
        break
    elseif word == ARGV[1] and words > 2 then
        return {kept, 1}
    end
end
redis.call('GETDEL', KEYS[1])
return {kept, 0}
