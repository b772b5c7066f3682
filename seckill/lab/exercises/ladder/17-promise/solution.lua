local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return 1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("SADD", KEYS[3], ARGV[1]) -- the journal: this order is due
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function write(user)
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  redis("SREM", key("due"), user) -- only when the order is there
end

local function write_until_done(user)
  while not pcall(write, user) do think() end
end

function start() -- what a dead process has left
  for _, user in ipairs(redis("SMEMBERS", key("due"))) do write_until_done(tonumber(user)) end
end

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers"), key("due")}, {user}) ~= 1 then return false end
  promise() -- the journal has it
  later(function() write_until_done(user) end)
  return true
end
