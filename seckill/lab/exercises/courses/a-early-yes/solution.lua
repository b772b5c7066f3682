local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return 1 end -- the buyer holds a ticket
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function consume()
  for _, user in ipairs(redis("LRANGE", key("queue"), 0, -1)) do
    sql("insert into orders (user_id) values ($1) on conflict do nothing", tonumber(user))
    redis("LREM", key("queue"), 1, user) -- the ack, by hand
  end
end

start = consume -- what has no ack is delivered again

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end
  redis("LPUSH", key("queue"), user) -- its reply is the confirm
  later(consume)
  return true
end
