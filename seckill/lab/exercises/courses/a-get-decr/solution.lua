function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("SADD", key("buyers"), user) == 0 then return false end -- the other click of a double click is at work
  local left = tonumber(redis("GET", key("stock")))
  if not left or left <= 0 then return false end
  if redis("DECR", key("stock")) < 0 then return false end -- and the counter stays
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
