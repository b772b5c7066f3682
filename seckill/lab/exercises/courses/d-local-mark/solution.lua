local sold_out = 0 -- the mark, in the memory of this process: so many clicks are refused, and then Redis is asked again

local take = [[
  if tonumber(redis.call("GET", KEYS[1])) <= 0 then return 0 end
  redis.call("DECR", KEYS[1])
  return 1]]

function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

local function order(user)
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end

function buy(user)
  think()
  if sold_out > 0 then -- spares Redis the question
    sold_out = sold_out - 1
    return false
  end
  if eval(take, {key("stock")}) == 0 then
    sold_out = 2
    return false
  end
  return order(user)
end

-- The unit goes back to Postgres, and then to Redis.
function cancel(user)
  local gone = tx(function()
    if sql("delete from orders where user_id = $1", user).affected == 0 then return false end
    sql("update item set stock = stock + 1")
  end)
  if gone then redis("INCR", key("stock")) end
  return true
end
