-- reserve: a ticket of one sale for each of many users.
--
-- KEYS  1 gate  2 tickets  3 journal  4 paths
-- ARGV  1 this process, then for each user: the user id, a nonce of the request
--
-- Returns one string per user, in order:
--   NOGATE         there is no gate; missing is never zero
--   NEW <ticket>   a new ticket, written to the journal; or the one that this very nonce got before (a repeated call)
--   HAS <value>    what the user has already, at a double click for example: Q<ticket>, O<order id> or Xinvalid
--   CLOSED, PAUSED, EARLY <ms>, ENDED   the sale's state, or its window by this server's clock
--   SOLDOUT <n>    nothing left at the gate, which remembers n users
--   BUSY           the journal is full, or its oldest entry has waited for 10 s: no process settles
--
-- All grants of a call are one entry of the journal, and one HSET: a command costs as much as the work that it does. The entry
-- has its owner, which is this process, the epoch, the number of its tickets, and of each its user and nonce. It is never changed.
-- The gate counts the tickets in the journal; an empty journal has none, whatever the gate says.
--
-- The XADD comes first, because it may fail (out of memory). The commands after it cannot, once a write was accepted. The first
-- XADD makes the journal, which then gets its expiry: a day after the sale's end.
local users = (#ARGV - 1) / 2
local replies = {}
local gate = redis.call('HMGET', KEYS[1], 'state', 'stock', 'epoch', 'qmax', 'start_ms', 'end_ms', 'in_flight')
if not (gate[1] and gate[2] and gate[3] and gate[4] and gate[5] and gate[6] and gate[7]) then
    for i = 1, users do replies[i] = 'NOGATE' end
    return replies
end
local stock, epoch = tonumber(gate[2]), gate[3]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local refusal = false
if gate[1] == 'closed' then
    refusal = 'CLOSED'
elseif now >= tonumber(gate[6]) then
    refusal = 'ENDED'
elseif now < tonumber(gate[5]) then
    refusal = string.format('EARLY %d', tonumber(gate[5]) - now)
elseif gate[1] ~= 'published' then
    refusal = 'PAUSED'
end

local asked = {}
for i = 1, users do asked[i] = ARGV[2 * i] end
local had = redis.call('HMGET', KEYS[2], unpack(asked))
local oldest = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1]
local in_flight = oldest and tonumber(gate[7]) or 0
local room = tonumber(gate[4]) - in_flight
if oldest and tonumber(string.match(oldest[1], '^%d+')) <= now - 10000 then
    room = 0
end
local granted, winners, entry = {}, {}, {} -- granted: user -> nonce
local soldout = false
for i = 1, users do
    local user, nonce = asked[i], ARGV[2 * i + 1]
    local has = had[i]
    local kind = has and string.sub(has, 1, 1)
    if granted[user] then
        replies[i] = false -- twice in this call: see below
    elseif kind == 'Q' and string.sub(has, -#nonce) == nonce then
        replies[i] = 'NEW ' .. string.sub(has, 2)
    elseif kind == 'Q' or kind == 'O' or has == 'Xinvalid' then
        replies[i] = 'HAS ' .. has
    elseif refusal then
        replies[i] = refusal
    elseif stock <= 0 then
        soldout = soldout or string.format('SOLDOUT %d', redis.call('HLEN', KEYS[2]) + #winners)
        replies[i] = soldout
    elseif room <= 0 then
        replies[i] = 'BUSY'
    else
        replies[i] = false
        granted[user] = nonce
        stock, room = stock - 1, room - 1
        winners[#winners + 1] = user
        entry[#entry + 1] = user .. ' ' .. nonce
    end
end
local grants = #winners
if grants > 0 then
    local id = redis.call('XADD', KEYS[3], '*', 'owner', ARGV[1], 'epoch', epoch, 'n', grants, 'tickets', table.concat(entry, ' '))
    local first, remember = epoch .. ':' .. id .. ':', {}
    for i = 1, users do
        if not replies[i] then
            local ticket = first .. granted[asked[i]]
            replies[i] = (granted[asked[i]] == ARGV[2 * i + 1] and 'NEW ' or 'HAS Q') .. ticket
            remember[#remember + 1], remember[#remember + 2] = asked[i], 'Q' .. ticket
        end
    end
    redis.call('HSET', KEYS[2], unpack(remember))
    redis.call('HSET', KEYS[1], 'stock', string.format('%d', stock), 'in_flight', string.format('%d', in_flight + grants))
    redis.call('ZREM', KEYS[4], unpack(winners))
    if not oldest and redis.call('PTTL', KEYS[3]) < 0 then
        redis.call('PEXPIREAT', KEYS[3], string.format('%d', tonumber(gate[6]) + 86400000))
    end
end
return replies
