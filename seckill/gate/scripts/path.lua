-- path: the big gate. Decides whether a user gets a hidden address, and until when.
--
-- KEYS  1 gate  2 tickets  3 paths  4 waiting  5 waiting_until  6 wasted  7 refusing
-- ARGV  1 user  2 life of an address in ms  3 addresses alive per unit left  4 the most users in waiting, and in wasted
--
-- Returns {verdict, number, wasted}; wasted counts the addresses that ran out unused, each of them in one reply:
--   OK <expiry>     ms since 1970 by this server's clock
--   FULL <ms>       no address for this user yet; ask again in that many ms
--   NOGATE, CLOSED, PAUSED, EARLY <ms>, ENDED, SOLDOUT   as in reserve
-- An address is counted until it is used (reserve removes it) or expires. Its first expiry stands: a user who asks again gets
-- the same. A user who has a ticket already gets an address that is not counted: it buys nothing but that same ticket.
--
-- As many addresses are alive at most as the units left allow. While there are more users than addresses, those who are told
-- FULL wait in line. First come those who wasted fewest addresses, and among them those who asked first. A user who does not ask
-- for 30 s loses the place. In a line with the most users, a user who wasted fewer displaces the last one.
--
-- refusing has the time since which this gate has said FULL, granted no ticket and settled none. It vanishes one life after the
-- last FULL.
-- Safe to run twice: the second run returns the address, or the place in line, of the first.
local KEEP, SWEEP = 30000, 200 -- ms in line without asking; the most users to remove in one run
local ASK = 5000 -- ms until the next request at most: below KEEP, or who obeys loses the place
local gate = redis.call('HMGET', KEYS[1], 'state', 'stock', 'start_ms', 'end_ms', 'ops')
if not (gate[1] and gate[2] and gate[3] and gate[4]) then
    return {'NOGATE', 0, 0}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if gate[1] == 'closed' then
    return {'CLOSED', 0, 0}
elseif now >= tonumber(gate[4]) then
    return {'ENDED', 0, 0}
elseif now < tonumber(gate[3]) then
    return {'EARLY', tonumber(gate[3]) - now, 0}
elseif gate[1] ~= 'published' then
    return {'PAUSED', 0, 0}
end
local function text(number) return string.format('%.0f', number) end
local user, life, stock, most = ARGV[1], tonumber(ARGV[2]), tonumber(gate[2]), tonumber(ARGV[4])
local has = redis.call('HGET', KEYS[2], user)
if has and string.sub(has, 1, 1) ~= 'X' then
    return {'OK', now + life, 0}
end
if stock <= 0 then
    return {'SOLDOUT', 0, 0}
end
local own = redis.call('ZSCORE', KEYS[3], user)
if own and tonumber(own) > now then
    return {'OK', tonumber(own), 0}
end

-- Remove the addresses that have run out, this user's first. Those without a ticket, or with a refused one, were wasted.
if own then
    redis.call('ZADD', KEYS[3], 0, user)
end
local wasted = 0
local out = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, SWEEP)
if #out > 0 then
    local tickets = redis.call('HMGET', KEYS[2], unpack(out))
    local room = redis.call('HLEN', KEYS[6]) < most
    for i, holder in ipairs(out) do
        if not tickets[i] or string.sub(tickets[i], 1, 1) == 'X' then
            wasted = wasted + 1
            if room then
                redis.call('HINCRBY', KEYS[6], holder, 1)
            end
        end
    end
    redis.call('ZREM', KEYS[3], unpack(out))
    redis.call('PEXPIREAT', KEYS[6], gate[4])
end
local gone = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', text(now), 'LIMIT', 0, SWEEP)
if #gone > 0 then
    redis.call('ZREM', KEYS[4], unpack(gone))
    redis.call('ZREM', KEYS[5], unpack(gone))
end

local room = math.max(64, stock * tonumber(ARGV[3])) - redis.call('ZCOUNT', KEYS[3], text(now + 1), '+inf')
local ahead, place = redis.call('ZRANK', KEYS[4], user), nil
if not ahead then
    -- 1e13 is later than any time in ms. A score is exact up to 9e15.
    place = math.min(tonumber(redis.call('HGET', KEYS[6], user) or 0), 99) * 1e13 + now
    ahead = redis.call('ZCOUNT', KEYS[4], '-inf', text(place))
end
if ahead < room then
    redis.call('ZADD', KEYS[3], text(now + life), user)
    redis.call('PEXPIREAT', KEYS[3], gate[4])
    if not place then
        redis.call('ZREM', KEYS[4], user)
        redis.call('ZREM', KEYS[5], user)
    end
    return {'OK', now + life, wasted}
end

local waits = true
if place then
    if redis.call('ZCARD', KEYS[4]) >= most then
        local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')
        waits = math.floor(place / 1e13) < math.floor(tonumber(last[2]) / 1e13)
        if waits then
            redis.call('ZREM', KEYS[4], last[1])
            redis.call('ZREM', KEYS[5], last[1])
        end
    end
    if waits then
        redis.call('ZADD', KEYS[4], text(place), user)
        redis.call('PEXPIREAT', KEYS[4], gate[4])
    end
end
if waits then
    redis.call('ZADD', KEYS[5], text(now + KEEP), user)
    redis.call('PEXPIREAT', KEYS[5], gate[4])
end
local ops = gate[5] or '0' -- grows with each settled ticket, so that a unit which came back and was sold shows too
local was = redis.call('HMGET', KEYS[7], 'since', 'stock', 'ops')
local same = was[1] and stock >= tonumber(was[2]) and was[3] == ops
redis.call('HSET', KEYS[7], 'since', same and was[1] or text(now), 'stock', gate[2], 'ops', ops, 'life', ARGV[2])
redis.call('PEXPIRE', KEYS[7], ARGV[2])

-- A free address is kept for those ahead in line, who come or lose their place.
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if room > 0 or not first then
    return {'FULL', 1000, wasted}
end
return {'FULL', math.max(1, math.min(ASK, tonumber(first) - now)), wasted}
