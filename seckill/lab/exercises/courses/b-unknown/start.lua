-- stock_log.status: 1 open, 2 done, 3 rolled back. key("half") has the half messages, which are not decided yet.
local take = [[
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return -redis.call("SCARD", KEYS[2]) end -- how many may come back
  redis.call("DECR", KEYS[1])
  redis.call("SADD", KEYS[2], ARGV[1])
  return 1]]
local give_back = [[
  if redis.call("SREM", KEYS[2], ARGV[1]) == 1 then redis.call("INCR", KEYS[1]) end
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  sql("create table stock_log (id bigserial primary key, status int not null, opened timestamptz not null default clock_timestamp())")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function check_back() -- the broker asks what has become of each half message
  for _, id in ipairs(redis("SMEMBERS", key("half"))) do
    local status = sql("select status from stock_log where id = $1", tonumber(id))[1].status
    if status == 2 then redis("SREM", key("half"), id) end
    if status == 3 then eval(give_back, {key("stock"), key("half")}, {id}) end
  end -- 1 is UNKNOW: the broker asks again
end

function buy(user)
  think()
  if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
  local id = sql("insert into stock_log (status) values (1) returning id")[1].id
  if eval(take, {key("stock"), key("half")}, {id}) ~= 1 then
    check_back()
    return false
  end
  tx(function()
    sql("update stock_log set status = 2 where id = $1", id)
    sql("insert into orders (user_id) values ($1)", user)
  end)
  redis("SREM", key("half"), id) -- COMMIT
  return true
end
