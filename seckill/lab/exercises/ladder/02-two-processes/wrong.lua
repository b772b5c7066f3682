-- The condition is in the write, but the number that is written is still the one that was read.
function buy(user)
  local stock = sql("select stock from item")[1].stock
  think()
  if sql("update item set stock = $1 where stock > 0", stock - 1).affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
