-- The script that takes a unit in Redis leaves a message there. The order and a line of the stock log
-- are one transaction. A message that stays is of a slow or dead process: the check-back asks the log,
-- and puts the unit back if it has no line. It writes a line itself, so that a late one fails.
--
-- Right, also when a process dies: its units are on sale again after 30 ms. Here a refused buyer does
-- the check-back, and clicks again while Postgres has units.

local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[2]) == 1 then return -1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  local now = redis.call("TIME")
  redis.call("SADD", KEYS[2], ARGV[2])
  redis.call("DECR", KEYS[1])
  redis.call("ZADD", KEYS[3], now[1] * 1000 + now[2] / 1000, ARGV[1] .. " " .. ARGV[2])
  return 1]]
local late = [[
  local now = redis.call("TIME")
  return redis.call("ZRANGEBYSCORE", KEYS[1], 0, now[1] * 1000 + now[2] / 1000 - 30)]]
local remove = [[
  if redis.call("ZREM", KEYS[3], ARGV[1]) == 0 or ARGV[3] == "sold" then return 0 end
  redis.call("SREM", KEYS[2], ARGV[2])
  return redis.call("INCR", KEYS[1])]]

function prepare()
  sql("create table stock_log (id text primary key, sold boolean not null)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function check_back(keys)
  for _, message in ipairs(eval(late, {keys[3]}, {})) do
    local id, user = message:match("(%S+) (%S+)")
    local line = sql([[
      insert into stock_log (id, sold) values ($1, false)
      on conflict (id) do update set id = excluded.id returning sold]], id)[1]
    eval(remove, keys, {message, user, line.sold and "sold" or "not sold"})
  end
end

function buy(user)
  local keys = {key("stock"), key("buyers"), key("prepared")}
  think()
  local id = user .. "-" .. math.random(1e9)
  while eval(take, keys, {id, user}) ~= 1 do
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if sql("select stock from item")[1].stock <= 0 then return false end
    check_back(keys)
    think()
    id = user .. "-" .. math.random(1e9)
  end
  sql([[
    with line as (insert into stock_log (id, sold) values ($1, true)), sale as (insert into orders (user_id) values ($2))
    update item set stock = stock - 1]], id, user)
  redis("ZREM", key("prepared"), id .. " " .. user)
  return true
end
