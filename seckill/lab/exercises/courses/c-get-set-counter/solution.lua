-- Counts a visit, and returns how many there were.
local function visit(user)
  return redis("INCR", key("visits:" .. user))
end

function buy(user)
  think()
  if visit(user) > 1 then return false end -- one purchase for each user
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
