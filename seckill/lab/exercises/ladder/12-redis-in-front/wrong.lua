-- DECR asks no one who the buyer is: a double click takes two units, and the index finds it too late.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("DECR", key("stock")) < 0 then return false end
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
