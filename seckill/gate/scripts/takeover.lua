-- takeover: make a process the owner of journal entries whose owners have died.
--
-- KEYS  1 journal  2 takeovers
-- ARGV  1 the process, then for each entry: its id, the owner that was read ('' for none)
--
-- Returns one number per entry: how many owners it has had, or 0 where it has left the journal or has another owner than was
-- read. Owner and count change together, so of two processes that read the same dead owner one takes the entry over, and it is
-- counted once. takeovers expires with the journal. A second run changes nothing, and returns what the first returned. An XDEL comes
-- first, of nothing: see ack.
redis.call('XDEL', KEYS[1], '0-0')
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
local replies = {}
for i = 2, #ARGV, 2 do
    local id, read = ARGV[i], ARGV[i + 1]
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    replies[i / 2] = 0
    if entry then
        local owner, owners = '', 1
        for f = 1, #entry[2], 2 do
            if entry[2][f] == 'owner' then owner = entry[2][f + 1] end
        end
        local n, name = string.match(redis.call('HGET', KEYS[2], id) or '', '^(%d+) %d+ (.*)$')
        if n then
            owners, owner = tonumber(n), name
        end
        if owner == ARGV[1] then
            replies[i / 2] = owners
        elseif owner == read then
            replies[i / 2] = owners + 1
            redis.call('HSET', KEYS[2], id, string.format('%d', owners + 1) .. ' ' .. now .. ' ' .. ARGV[1])
        end
    end
end
local life = redis.call('PTTL', KEYS[1])
if life > 0 then
    redis.call('PEXPIRE', KEYS[2], life)
end
return replies
