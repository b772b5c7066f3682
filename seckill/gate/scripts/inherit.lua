-- inherit: put the entries of a process that has surely died under the name of another.
--
-- KEYS  1 journal
-- ARGV  1 the dead process  2 the other  3 ms since the death was found  4 the most entries to take
--
-- Returns the ids of the entries. One that was claimed or refreshed after the death was found stays: its process lives.
-- JUSTID, because this is no delivery. A second run finds nothing under the dead process's name.
local pending = redis.pcall('XPENDING', KEYS[1], 'settle', 'IDLE', ARGV[3], '-', '+', ARGV[4], ARGV[1])
if pending.err then
    if string.find(pending.err, 'NOGROUP', 1, true) then
        return {}
    end
    return pending
end
local ids = {}
for i, entry in ipairs(pending) do ids[i] = entry[1] end
if #ids > 0 then
    ids[#ids + 1] = 'JUSTID'
    return redis.call('XCLAIM', KEYS[1], 'settle', ARGV[2], ARGV[3], unpack(ids))
end
return ids
