-- There is a journal, but the process writes it after the answer: what is lost with the process is not in it.
local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return -1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function write(user)
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  redis("SREM", key("due"), user)
end

function start()
  for _, user in ipairs(redis("SMEMBERS", key("due"))) do write(tonumber(user)) end
end

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end
  later(function()
    redis("SADD", key("due"), user)
    write(user)
  end)
  return true
end
