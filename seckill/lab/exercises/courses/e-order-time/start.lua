function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

-- The unit is taken at the order.
function buy(user)
  think()
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end -- the buyer has an order
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end

-- The payment deadline has passed: the order is closed.
function cancel(user)
  return sql("delete from orders where user_id = $1", user).affected == 1
end
