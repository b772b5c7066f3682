-- A lock for all processes: a key in Redis that only one can set. It expires, so that a dead holder
-- does not block the shop, and holds a token, so that no one releases the lock of another.
--
-- Wrong: it oversells now and then. A holder that stalls for longer than the lock lives has lost it and
-- does not know. Another buyer sells, and then the first one writes its old result. The remedy is a
-- check inside the write: a version or a fencing token that Postgres compares.

local unlock = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

local function stall(user) -- stands for a garbage collection; real ones are too rare to wait for
  if user % 8 ~= 0 then return end
  for i = 1, 80 do think() end
end

local function sell(user)
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  local stock = sql("select stock from item")[1].stock
  if stock <= 0 then return false end
  think()
  stall(user) -- the lock expires, and the holder does not know
  sql("update item set stock = $1", stock - 1)
  sql("insert into orders (user_id) values ($1)", user)
  return true
end

function buy(user)
  local token = user .. " " .. math.random(1e9)
  while not redis("SET", key("lock"), token, "NX", "PX", 30) do think() end
  local ok, yes = pcall(sell, user)
  eval(unlock, {key("lock")}, {token})
  if not ok then error(yes, 0) end
  return yes
end
