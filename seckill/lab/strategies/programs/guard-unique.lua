-- The guard and a unique index in one transaction: a unit and its order, both or neither, and at most
-- one order for a buyer. If you remember one program, remember this one.
--
-- The order comes first and the stock last. So the row that all buyers want is locked for one
-- statement and the commit only, and the second click of a buyer waits at the index for the first.

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think() -- before the transaction, while no one waits
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end -- the buyer has an order
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1 -- false rolls back
  end)
end
