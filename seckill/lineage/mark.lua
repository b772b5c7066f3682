-- mark: show that a process of the shop lives, and what the shop has seen in Postgres.
--
-- KEYS  1 marks  2 processes
-- ARGV  1 the process, or '' for a command: it marks nothing where no process has
--       2 its shop  3 its incarnation  4 its server  5 the incarnation whose marks end with this call, or ''
--       then for each number that was seen: its name, the number
--
-- Returns '' when the marks are those of this incarnation now, or else the shop and the incarnation that they have:
-- then nothing has changed. A number only grows. Safe to run twice.
local has = redis.call('HMGET', KEYS[1], 'shop', 'incarnation')
if not has[1] and ARGV[1] == '' then
    return ''
end
if has[1] == ARGV[2] and has[2] == ARGV[5] and ARGV[5] ~= ARGV[3] then
    redis.call('DEL', KEYS[1])
elseif has[1] and (has[1] ~= ARGV[2] or has[2] ~= ARGV[3]) then
    return has[1] .. ' ' .. (has[2] or '')
end
redis.call('HSET', KEYS[1], 'shop', ARGV[2], 'incarnation', ARGV[3], 'server', ARGV[4])
for i = 6, #ARGV, 2 do
    local was = redis.call('HGET', KEYS[1], ARGV[i])
    if not was or tonumber(was) < tonumber(ARGV[i + 1]) then
        redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    end
end
if ARGV[1] ~= '' then
    local time = redis.call('TIME')
    redis.call('ZADD', KEYS[2], string.format('%d', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)), ARGV[1])
end
return ''
