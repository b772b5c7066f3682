-- now() is the start of the transaction, which has thought and waited for the row since then.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    think()
    return sql("update item set stock = stock - 1 where stock > 0 and now() >= starts_at and now() < ends_at").affected == 1
  end)
end
