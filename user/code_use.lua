-- Use a one-time code.
-- KEYS[1]  hash mac, browser, tries, winner: the code sent to one phone
-- ARGV[1]  mac of the code to check
-- ARGV[2]  nonce of this use
-- ARGV[3]  number of wrong tries that a code allows
-- ARGV[4]  mac of the browser's secret: a code is good in the browser that asked for it, and no other uses up its tries
-- returns  RIGHT  the code is right; only this use has it
--          WRONG  the code is wrong; one try is used
--          NONE   there is no code for this browser: never sent, expired, used, or out of tries
-- Safe to run twice: the use that won receives RIGHT again. A wrong try whose reply was lost may count twice.
local code = redis.call('HMGET', KEYS[1], 'mac', 'browser', 'winner')
if not code[1] or code[2] ~= ARGV[4] then
    return 'NONE'
end
if code[3] then
    return code[3] == ARGV[2] and 'RIGHT' or 'NONE'
end
if tonumber(redis.call('HGET', KEYS[1], 'tries') or 0) >= tonumber(ARGV[3]) then
    return 'NONE'
end
if code[1] == ARGV[1] then
    redis.call('HSET', KEYS[1], 'winner', ARGV[2])
    return 'RIGHT'
end
redis.call('HINCRBY', KEYS[1], 'tries', 1)
return 'WRONG'
