-- remove_consumers: remove the consumers of processes that are gone from a sale's journal.
--
-- KEYS  1 journal
-- ARGV  1 ms a consumer must have been silent
--
-- Returns how many were removed. A consumer with pending entries stays, because these would be removed with it. A living
-- process whose consumer is removed gets a new one with its next read. Safe to run twice.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
local gone = 0
for _, c in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], 'settle')) do
    local is = {}
    for i = 1, #c, 2 do is[c[i]] = c[i + 1] end
    if is.pending == 0 and is.idle >= tonumber(ARGV[1]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'settle', is.name)
        gone = gone + 1
    end
end
return gone
