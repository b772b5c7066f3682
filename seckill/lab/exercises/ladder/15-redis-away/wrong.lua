-- An error of Redis becomes a no: the buyers go away while units are left.
local take = [[
  if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then return 1 end
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("SADD", KEYS[2], ARGV[1])
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  local ok, granted = pcall(eval, take, {key("stock"), key("buyers")}, {user})
  if not ok or granted ~= 1 then return false end
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
