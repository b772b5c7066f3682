function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1 -- false rolls back
  end)
end
