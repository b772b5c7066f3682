-- An order fails after DECR: put the unit back into the pre-stock with INCR.
--
-- Wrong: units stay unsold. Each refused buyer has decremented too, so the counter is not at zero when
-- the order fails. It is at -500, INCR makes it -499, and the next buyer is refused like all before.

local failed = {}

local function fails_once(user) -- the first order of one buyer in three: a deadlock, a full disk, a time limit
  if user % 3 ~= 0 or failed[user] then return end
  failed[user] = true
  sql("select 1 / 0")
end

local function put_back()
  redis("INCR", key("stock"))
end

function prepare()
  redis("SET", key("stock"), sql("select stock from item")[1].stock)
end

function buy(user)
  think()
  if redis("SADD", key("buyers"), user) == 0 then return false end -- the other click of a double click is at work
  if redis("DECR", key("stock")) < 0 then return false end
  local ok, yes = pcall(tx, function()
    fails_once(user)
    sql("insert into orders (user_id) values ($1)", user)
    return sql("update item set stock = stock - 1 where stock > 0").affected == 1
  end)
  if ok then return yes end
  put_back()
  redis("SREM", key("buyers"), user)
  error(yes, 0) -- the buyer clicks again
end
