local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return 1 end -- the buyer holds a ticket
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function send(user)
  local id = redis("INCR", key("messages"))
  redis("HSET", key("confirm"), id, user) -- kept until the ack
  while not pcall(redis, "LPUSH", key("queue"), user) do think() end -- a nack, or no answer: send it again
  redis("HDEL", key("confirm"), id)
end

local function create_order(user)
  local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  if new.affected == 1 then sql("update item set stock = stock - 1 where stock > 0") end -- the first delivery
end

local function consume()
  local user = redis("RPOPLPUSH", key("queue"), key("unacked"))
  while user do
    tx(function() create_order(tonumber(user)) end)
    redis("LREM", key("unacked"), 1, user) -- the ack, by hand
    user = redis("RPOPLPUSH", key("queue"), key("unacked"))
  end
end

local function requeue() -- what has no ack is delivered again
  while redis("RPOPLPUSH", key("unacked"), key("queue")) do end
end

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers")}, {user}) ~= 1 then return false end
  send(user)
  later(function()
    while not pcall(consume) do pcall(requeue) end
  end)
  return true
end
