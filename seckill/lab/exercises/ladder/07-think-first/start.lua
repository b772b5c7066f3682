function buy(user)
  return tx(function()
    local stock = sql("select stock from item for update")[1].stock
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if stock <= 0 then return false end
    think()
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
