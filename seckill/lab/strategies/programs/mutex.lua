-- Read and write under a lock of the process: synchronized in Java, sync.Mutex in Go.
--
-- Right with one process, wrong with two: each process has its own lock, which does not stop the
-- buyers of the other one. Even where it is right, the buyers go one after the other.

function buy(user)
  return lock("stock", function() -- the other process has another lock
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    local stock = sql("select stock from item")[1].stock
    if stock <= 0 then return false end
    think()
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
    return true
  end)
end
