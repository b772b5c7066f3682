-- Counts a visit, and returns how many there were.
local function visit(user)
  local visits = tonumber(redis("GET", key("visits:" .. user)) or 0) + 1
  redis("SET", key("visits:" .. user), visits)
  return visits
end

function buy(user)
  think()
  if visit(user) > 1 then return false end -- one purchase for each user
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
