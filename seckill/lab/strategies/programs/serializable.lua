-- read-then-write in transactions that behave as if they ran one after the other. If no such order
-- exists any more, the database aborts one of them with SQLSTATE 40001, and it starts again.
--
-- Right, and you need not find the race. The price is that of optimistic-retry and a little more, and
-- all writers of the table must use this isolation level.

local function try(user)
  return tx("serializable", function()
    local stock = sql("select stock from item")[1].stock
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if stock <= 0 then return false end
    think()
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
  end)
end

function buy(user)
  while true do
    local ok, yes = pcall(try, user)
    if ok then return yes end
    if not tostring(yes):find("SQLSTATE 40001") then error(yes, 0) end
  end
end
