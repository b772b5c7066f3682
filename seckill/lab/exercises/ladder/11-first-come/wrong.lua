-- A buyer who finds the row locked goes away and comes again later: others have come to the row meanwhile.
local function try(user)
  return tx(function()
    local stock = sql("select stock from item for update nowait")[1].stock
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if stock <= 0 then return false end
    sql("update item set stock = $1", stock - 1)
    sql("insert into orders (user_id) values ($1)", user)
  end)
end

function buy(user)
  think()
  while true do
    local ok, yes = pcall(try, user)
    if ok then return yes end
    if not tostring(yes):find("SQLSTATE 55P03") then error(yes, 0) end
    think()
  end
end
