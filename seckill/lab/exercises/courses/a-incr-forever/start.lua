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
  if redis("INCR", key("clicks-" .. user)) > 1 then return false end -- a repeat
  redis("EXPIRE", key("clicks-" .. user), 300)
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return false end -- the second check
  if redis("DECR", key("stock")) < 0 then return false end
  redis("LPUSH", key("queue"), user)
  later(consume)
  return true
end
