-- Read the number of units; if there is one, write back one less. Most people write this first.
--
-- Wrong: it oversells. Between the read and the write other buyers read the same number. All of them
-- write the same one less, and each gets an order. No statement is wrong by itself, and a test with
-- one buyer passes.

function buy(user)
  local stock = sql("select stock from item")[1].stock
  if stock <= 0 then return false end
  think() -- meanwhile other buyers read the same stock
  sql("update item set stock = $1", stock - 1)
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
