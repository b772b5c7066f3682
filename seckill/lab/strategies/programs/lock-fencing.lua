-- A lock in Redis that comes with a number that only rises (a fencing token). A holder announces its
-- number in the statement that reads the stock, and names it in the write. Postgres refuses the write
-- of a holder whose number is not the newest.
--
-- Right, also when a holder stalls for longer than the lock lives. To compare only at the write is not
-- enough: two holders could read 20, and then write 19 one after the other.

local lock = [[
  if redis.call("EXISTS", KEYS[1]) == 1 then return 0 end
  local number = redis.call("INCR", KEYS[2])
  redis.call("SET", KEYS[1], number, "PX", 30)
  return number]]
local unlock = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

local stalled = {}

local function stall(user) -- once; stands for a garbage collection
  if user % 8 ~= 0 or stalled[user] then return end
  stalled[user] = true
  for i = 1, 80 do think() end
end

local function sell(user, number)
  local item = sql("update item set version = $1 where version < $1 returning stock", number)[1]
  if not item then return "again" end
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  if item.stock <= 0 then return false end
  think()
  stall(user) -- the lock expires, and the holder does not know
  local won = tx(function()
    if sql("update item set stock = $1 where version = $2", item.stock - 1, number).affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
  return won or "again"
end

function buy(user)
  while true do
    local number = eval(lock, {key("lock"), key("fence")}, {})
    if number > 0 then
      local ok, yes = pcall(sell, user, number)
      eval(unlock, {key("lock")}, {number})
      if not ok then error(yes, 0) end
      if yes ~= "again" then return yes end
    end
    think()
  end
end
