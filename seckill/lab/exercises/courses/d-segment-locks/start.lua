local segments = 4

function prepare()
  local stock = sql("select stock from item")[1].stock
  for i = 1, segments do
    redis("SET", key("segment:" .. i), math.floor((stock + i - 1) / segments))
  end
end

local function take(segment)
  return lock(segment, function() -- no other click of this process is in the segment
    local left = tonumber(redis("GET", key(segment)))
    if left == 0 then return false end
    redis("SET", key(segment), left - 1)
    return true
  end)
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
