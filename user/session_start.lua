-- Begin a session: list it and write it, unless the account has changed since the log-in read it.
-- KEYS[1]  zset of the user: hash of a token -> expiry of its session, in ms since 1970
-- KEYS[2]  hash of the user: hash of a token -> "generation address client" of its session;
--          "generation" -> the highest generation of the account that Redis knows
-- KEYS[3]  the record of the new session
-- ARGV[1]  hash of the new session's token
-- ARGV[2]  the record
-- ARGV[3]  expiry of the session if it is not used, in ms since 1970
-- ARGV[4]  the time now, in ms since 1970
-- ARGV[5]  generation of the account, as it was read before the password was checked
-- ARGV[6]  network address of the log-in
-- ARGV[7]  number of sessions that a user may have
-- ARGV[8]  prefix of the keys of records
-- ARGV[9]  client of the log-in, for the list of sessions
-- returns  {"CHANGED"}             the account has a higher generation; nothing is written
--          {"STARTED", hash, ...}  the session has begun. The sessions of these tokens ended: those of a
--                                  lower generation, and beyond the number those unused longest.
-- Beyond the number, a session of the new one's address ends first. If there is none, one of the address
-- that has the most sessions ends.
-- Safe to run twice: the second run lists and writes the same session again.
local new, now, generation, here = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if tonumber(redis.call('HGET', KEYS[2], 'generation') or 0) > generation then
    return {'CHANGED'}
end
redis.call('ZADD', KEYS[1], ARGV[3], new)
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
redis.call('HSET', KEYS[2], 'generation', ARGV[5], new, ARGV[5] .. ' ' .. here .. ' ' .. ARGV[9])
redis.call('PEXPIREAT', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], ARGV[2])
redis.call('PEXPIREAT', KEYS[3], ARGV[3])

local reply = {'STARTED'}
local function finish(token)
    redis.call('DEL', ARGV[8] .. token)
    redis.call('ZREM', KEYS[1], token)
    redis.call('HDEL', KEYS[2], token)
    table.insert(reply, token)
end

local live, address, count = {}, {}, {} -- live has first what was unused longest: it expires first
local listed = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #listed, 2 do
    local token = listed[i]
    -- A session that an older program began has no address and no generation.
    local begun, from = string.match(redis.call('HGET', KEYS[2], token) or '0 ', '^(%d+) (%S*)')
    if tonumber(listed[i + 1]) <= now or tonumber(begun) < generation then
        finish(token)
    else
        table.insert(live, token)
        address[token] = from
        count[from] = (count[from] or 0) + 1
    end
end

local function takeOldest(from)
    for i, token in ipairs(live) do
        if address[token] == from and token ~= new then
            return table.remove(live, i)
        end
    end
end
while #live > tonumber(ARGV[7]) do
    local token = takeOldest(here)
    if not token then
        local most
        for _, other in ipairs(live) do
            local from = address[other]
            if from ~= here and (not most or count[from] > count[most]) then
                most = from
            end
        end
        token = takeOldest(most)
    end
    count[address[token]] = count[address[token]] - 1
    finish(token)
end
return reply
