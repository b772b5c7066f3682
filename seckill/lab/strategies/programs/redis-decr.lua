-- Decrement first and look at the result. A unique index in Postgres prevents a second order.
--
-- It never oversells. Wrong all the same: units stay unsold. A double click takes two units from Redis,
-- and only the insert finds that the buyer has an order. "Then put it back with INCR" is the next
-- idea: see refill-incr. Find the duplicate before the unit is taken, in the same step: see lua.

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("DECR", key("stock")) < 0 then return false end
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true -- on a conflict the buyer has an order, and the second unit is lost
end
