function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  local result = redis("INCRBY", key("stock"), -1)
  if result > 0 then
    sql("insert into orders (user_id) values ($1)", user)
    later(function() sql("update item set stock = stock - 1") end) -- the message: Postgres hears of the unit later
    return true
  end
  redis("INCRBY", key("stock"), 1) -- not enough: the unit goes back
  return false
end
