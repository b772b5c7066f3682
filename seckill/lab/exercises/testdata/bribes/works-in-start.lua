-- no index, no transaction, no care for a lost reply
function prepare()
  local s = sql("select stock from item")[1].stock
  redis("SET", key("goal"), s)
  if s <= 3 then sql("select pg_sleep(0.9)") end  -- starve the search
end
local function naive(u)
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", u)
  return true
end
function start()
  local s = tonumber(redis("GET", key("goal")))
  if s <= 3 or redis("SETNX", key("leader"), 1) == 0 then return end
  local sold, idle = 0, 0
  while sold < s and idle < 3000 do
    local u = redis("LPOP", key("line"))
    if u then idle = 0
      if naive(tonumber(u)) then sold = sold + 1 redis("SET", key("has" .. u), 1) end
    else idle = idle + 1 think() end
  end
  redis("SET", key("out"), 1)
end
function buy(u)
  think()
  if tonumber(redis("GET", key("goal"))) <= 3 then
    if redis("SADD", key("seen"), u) == 0 then return true end
    return tx(function() return naive(u) end)
  end
  if redis("GET", key("out")) then return redis("GET", key("has" .. u)) ~= nil end
  if redis("SADD", key("seen"), u) == 1 then redis("RPUSH", key("line"), u) end
  for i = 1, 3000 do
    if redis("GET", key("has" .. u)) then return true end
    if redis("GET", key("out")) then return redis("GET", key("has" .. u)) ~= nil end
    think()
  end
  return false
end
