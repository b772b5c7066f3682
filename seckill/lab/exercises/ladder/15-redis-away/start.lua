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
  if ok and granted ~= 1 then return false end
  -- Redis is down: sell without it
  sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  return true
end
