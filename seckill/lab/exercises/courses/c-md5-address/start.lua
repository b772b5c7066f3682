local salt = "the salt of this shop"

-- Is the sale open?
local function open()
  return #sql("select 1 from item where clock_timestamp() >= starts_at and clock_timestamp() < ends_at") == 1
end

-- The first request of a purchase asks for the address.
local function address(user)
  if not open() then return nil end
  local hash = sql("select md5($1) as hash", salt .. " sale 1 user " .. user)[1].hash
  redis("SET", key("address:" .. user), hash, "EX", 3600)
  return hash
end

-- The second one buys with the address.
local function order(user, hash)
  if not open() then return false end
  if redis("GET", key("address:" .. user)) ~= hash then error("a wrong address: ask for a new one") end
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end

function buy(user)
  local hash = address(user)
  think()
  return hash ~= nil and order(user, hash)
end
