local sold_out = false -- each process finds out on its own

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  if sold_out then return false end
  think()
  return lock("line", function() -- wait here, without a connection
    if sold_out then return false end
    return tx(function()
      local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
      if new.affected == 0 then return true end
      if sql("update item set stock = stock - 1 where stock > 0").affected == 1 then return true end
      sold_out = true
      return false
    end)
  end)
end
