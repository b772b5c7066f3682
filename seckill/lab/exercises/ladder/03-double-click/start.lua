function buy(user)
  think()
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
