-- Redis checks and takes in one step: a script runs alone, from its first line to its last.
--
-- Right under any crowd. The step from Redis to Postgres remains: a process that dies between the two
-- has taken a unit that no buyer gets, and the script refuses the next click as a repeat. Nothing is
-- oversold or lost, but units stay unsold. Run it with the fault kill.

local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return -1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end -- sold out, or a repeat
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
