local segments = 4

function prepare()
  local stock = sql("select stock from item")[1].stock
  for i = 1, segments do
    redis("SET", key("segment:" .. i), math.floor((stock + i - 1) / segments))
  end
end

local taken = [[
  if tonumber(redis.call("GET", KEYS[1])) == 0 then return 0 end
  redis.call("DECR", KEYS[1])
  return 1]]

local function take(segment)
  return eval(taken, {key(segment)}) == 1 -- no other click of any process is in the script
end

function buy(user)
  think()
  for i = 0, segments - 1 do -- the buyer's own segment first, and then the others
    if take("segment:" .. (user + i) % segments + 1) then
      sql("insert into orders (user_id) values ($1)", user)
      return true
    end
  end
  return false
end
