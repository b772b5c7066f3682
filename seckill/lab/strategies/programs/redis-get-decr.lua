-- The stock is counted in Redis, which is faster, and still read before it is written.
--
-- Wrong: it oversells like read-then-write. Redis runs one command after the other. That protects each
-- command, and not the time between two commands.

function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  if tonumber(redis("GET", key("stock"))) <= 0 then return false end
  think() -- meanwhile other buyers read the same stock
  redis("DECR", key("stock"))
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
