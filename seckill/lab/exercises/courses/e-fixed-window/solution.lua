-- Counts the visits of this minute, and returns how many there were.
local function visit(user)
  local visits = redis("INCR", key("visits:" .. user))
  if visits == 1 then redis("EXPIRE", key("visits:" .. user), 60) end
  return visits
end

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  if visit(user) > 1 then return false end -- spares Postgres most second clicks
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    return sql("insert into orders (user_id) values ($1) on conflict do nothing", user).affected == 1
  end)
end
