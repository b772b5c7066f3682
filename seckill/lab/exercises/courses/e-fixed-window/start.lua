-- Counts the visits of this minute, and returns how many there were.
local function visit(user)
  local visits = redis("INCR", key("visits:" .. user))
  if visits == 1 then redis("EXPIRE", key("visits:" .. user), 60) end
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
