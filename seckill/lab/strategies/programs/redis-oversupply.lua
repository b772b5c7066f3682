-- Twice as many units in Redis as there are. Some shops do it by accident, some on purpose.
--
-- Right, because Postgres decides: a buyer who passes Redis goes through the transaction of
-- guard-unique. One store reduces the crowd and may be wrong, the other decides and must be right. A
-- number in Redis that is too high costs work; one that is too low leaves units unsold.

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), 2 * sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("DECR", key("stock")) < 0 then return false end
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end
