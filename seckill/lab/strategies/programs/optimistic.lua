-- No lock: remember the version that was read, and write only if it is still the same.
--
-- It never oversells. Wrong all the same: units stay unsold. Of all buyers who read the same version
-- one gets a unit. The others are refused, though units are left.

function buy(user)
  local item = sql("select stock, version from item")[1]
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  if item.stock <= 0 then return false end
  think()
  return tx(function()
    local won = sql("update item set stock = stock - 1, version = version + 1 where version = $1", item.version)
    if won.affected == 0 then return false end -- another buyer was faster
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
