-- A pessimistic lock: the transaction locks the row when it reads it, and all others wait for its end.
--
-- Right, with any number of processes, because the lock is where the stock is. The search for an
-- earlier order is under the same lock. The price: all buyers wait in line, each with a connection,
-- and the one in front looks up prices meanwhile.

function buy(user)
  return tx(function()
    local stock = sql("select stock from item for update")[1].stock
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if stock <= 0 then return false end
    think() -- while all other buyers wait
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
