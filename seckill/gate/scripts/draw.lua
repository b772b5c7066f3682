-- draw: keeps the answer to a session's new sum, and remembers the answers to the sums that it replaces.
--
-- KEYS  1 captcha
-- ARGV  1 answer  2 ms since 1970 before which no answer is judged, 0 for none  3 life in ms
--
-- The value is "<answer> <ms> <replaced> <replaced> ...", the newest first, or only the answer if there is nothing else.
-- Safe to run twice: the second run replaces the sum with the same sum.
local KEEP = 4 -- replaced sums; a buyer has few tabs
local kept, words = {ARGV[1], ARGV[2]}, 0
for word in string.gmatch(redis.call('GET', KEYS[1]) or '', '%S+') do
    words = words + 1
    if words ~= 2 and word ~= ARGV[1] and #kept < KEEP + 2 then
        kept[#kept + 1] = word
    end
end
if #kept == 2 and ARGV[2] == '0' then
    kept[2] = nil
end
redis.call('SET', KEYS[1], table.concat(kept, ' '), 'PX', ARGV[3])
return 'OK'
