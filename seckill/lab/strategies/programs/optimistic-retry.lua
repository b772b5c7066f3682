-- optimistic with a loop: a buyer who loses reads and tries again.
--
-- Right: of all tries with the same version one wins, so each round sells a unit and the loop ends.
-- The price is wasted work, and most of it when the rush is greatest. See its statements per order.

local function take(user, version)
  return tx(function()
    local won = sql("update item set stock = stock - 1, version = version + 1 where version = $1", version)
    if won.affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end

function buy(user)
  while true do
    local item = sql("select stock, version from item")[1]
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if item.stock <= 0 then return false end
    think()
    if take(user, item.version) then return true end
  end
end
