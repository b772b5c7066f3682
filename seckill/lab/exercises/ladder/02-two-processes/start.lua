function buy(user)
  return lock("stock", function()
    local stock = sql("select stock from item")[1].stock
    if stock <= 0 then return false end
    think()
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
    return true
  end)
end
