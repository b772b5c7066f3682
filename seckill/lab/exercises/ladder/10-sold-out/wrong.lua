-- Each process counts the units in its own memory, and asks the database no more.
local left

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function start()
  left = sql("select stock from item")[1].stock
end

function buy(user)
  if left <= 0 then return false end
  think()
  if left <= 0 then return false end
  left = left - 1
  local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
  if new.affected == 0 then left = left + 1 end
  return true
end
