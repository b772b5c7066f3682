-- The search for an order is one more read before a write: both clicks of a buyer find none.
function buy(user)
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  think()
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
