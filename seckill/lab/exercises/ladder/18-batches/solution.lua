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

local function write_all()
  local due = redis("SMEMBERS", key("due"))
  if #due == 0 then return end
  sql([[
    insert into orders (user_id) select unnest(string_to_array($1, ',')::bigint[])
    on conflict do nothing]], table.concat(due, ","))
  redis("SREM", key("due"), unpack(due))
end

local writing, again = false, false -- one writer in each process

local function drain()
  again = true
  if writing then return end -- the writer looks once more
  writing = true
  while again do
    again = false
    if not pcall(write_all) then
      again = true
      think()
    end
  end
  writing = false
end

start = drain -- what a dead process has left

function buy(user)
  think()
  if eval(take, {key("stock"), key("buyers"), key("due")}, {user}) ~= 1 then return false end
  promise()
  later(drain)
  return true
end
