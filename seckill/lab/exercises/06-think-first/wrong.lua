-- The price is looked up between the write of the stock and the commit: all others wait for it.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    think()
  end)
end
