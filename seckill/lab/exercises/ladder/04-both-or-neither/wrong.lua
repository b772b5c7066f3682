-- The unit is taken before the transaction: a second click burns one, and so does a process that dies.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  return tx(function()
    sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  end)
end
