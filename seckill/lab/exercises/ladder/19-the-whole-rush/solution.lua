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
  return tx(function() -- with Redis or without it, Postgres decides
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
end

local give_back = [[
  if redis.call("SREM", KEYS[2], ARGV[1]) == 1 then redis.call("INCR", KEYS[1]) end
  return 1]]

function cancel(user)
  tx(function()
    if sql("delete from orders where user_id = $1", user).affected == 0 then return false end
    sql("update item set stock = stock + 1")
  end)
  -- also if the order was gone: an earlier try may have ended before this line
  eval(give_back, {key("stock"), key("buyers")}, {user})
  return true
end
