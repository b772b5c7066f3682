function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("DECR", key("stock")) < 0 then return false end
  local ok, err = pcall(sql, "insert into orders (user_id) values ($1)", user)
  if ok then return true end
  redis("INCR", key("stock")) -- no order: the unit goes back
  if tostring(err):find("SQLSTATE 23505") then return true end -- the buyer has an order
  error(err, 0) -- the buyer clicks again
end
