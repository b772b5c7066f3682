function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  if new.affected == 0 then return true end -- the buyer has an order
  if sql("update item set stock = stock - 1 where stock > 0").affected == 1 then return true end
  sql("delete from orders where user_id = $1", user)
  return false
end
