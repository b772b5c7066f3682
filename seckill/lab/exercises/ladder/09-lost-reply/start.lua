function buy(user)
  think()
  if redis("SISMEMBER", key("done"), user) == 1 then return true end
  local yes = tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
  if yes then redis("SADD", key("done"), user) end -- so that a second try finds the first
  return yes
end
