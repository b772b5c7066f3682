function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("SISMEMBER", key("bought"), user) == 1 then return false end -- has bought
  if redis("DECR", key("stock")) < 0 then return false end
  later(function() -- the consumer of the queue
    sql("insert into orders (user_id) values ($1)", user)
    redis("SADD", key("bought"), user) -- the record of the purchase
  end)
  return true
end
