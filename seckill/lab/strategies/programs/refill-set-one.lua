-- An order fails after DECR: one unit came back, so set the pre-stock to 1.
--
-- Wrong: units stay unsold. If two orders fail before the next buyer comes, the second SET writes the
-- same 1 again. If an order fails while the counter is at 12, SET takes eleven units out of the sale.

local failed = {}

local function fails_once(user) -- the first order of one buyer in three: a deadlock, a full disk, a time limit
  if user % 3 ~= 0 or failed[user] then return end
  failed[user] = true
  sql("select 1 / 0")
end

local function put_back()
  redis("SET", key("stock"), 1)
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
