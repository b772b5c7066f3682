function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  if #sql("select 1 from item where now() >= starts_at and now() < ends_at") == 0 then return false end
  think()
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end
