-- A batch is collected in the memory of the process, and dies with it.
local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return -1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local waiting = {}

local function drain()
  for _ = 1, 3 do think() end -- until more orders wait
  local due = waiting
  waiting = {}
  if #due == 0 then return end
  sql([[
    insert into orders (user_id) select unnest(string_to_array($1, ',')::bigint[])
    on conflict do nothing]], table.concat(due, ","))
end

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end
  table.insert(waiting, user)
  later(drain)
  return true
end
