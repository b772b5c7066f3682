-- The price is looked up after the unit was taken and before the commit: all others wait for it.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  local ok, yes = pcall(tx, function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    think()
    sql("insert into orders (user_id) values ($1)", user)
  end)
  if ok then return yes end
  if tostring(yes):find("SQLSTATE 23505") then return true end -- the buyer has an order
  error(yes, 0)
end
