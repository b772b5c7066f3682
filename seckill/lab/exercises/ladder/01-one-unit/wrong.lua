-- The database subtracts now, but the look at the stock is still a step of its own.
function buy(user)
  local stock = sql("select stock from item")[1].stock
  if stock <= 0 then return false end
  think()
  sql("update item set stock = stock - 1")
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
