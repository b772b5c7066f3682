-- for-update with a lock on a number instead of a row. The program decides what the number means.
--
-- Right, as long as every program that changes this stock takes the same lock first. Take the lock of
-- the transaction (..._xact_...): it ends with the commit and not before. Its price is that of for-update.

function buy(user)
  return tx(function()
    sql("select pg_advisory_xact_lock(7)")
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    local stock = sql("select stock from item")[1].stock
    if stock <= 0 then return false end
    think()
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
