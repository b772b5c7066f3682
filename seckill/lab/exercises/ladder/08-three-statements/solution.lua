function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  local ok, done = pcall(sql, [[
    with taken as (update item set stock = stock - 1 where stock > 0 returning 1)
    insert into orders (user_id) select $1 from taken]], user)
  if ok then return done.affected == 1 end
  if tostring(done):find("SQLSTATE 23505") then return true end -- the buyer has an order; the unit was not taken
  error(done, 0)
end
