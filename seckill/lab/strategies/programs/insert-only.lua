-- No stock is updated. Each sale is a row with the number of its unit, and a unique index refuses a
-- number that is taken. Two buyers may read the same highest number; then one of them tries again.
--
-- Right, also when a process dies: one statement reads, compares and writes. No row is hot, but all
-- buyers want the same next number. Look at the statements for each order.

local total

function start()
  total = sql("select stock from item")[1].stock
end

function prepare()
  sql("alter table orders add column unit int not null check (unit > 0)")
  sql("create unique index one_order_per_unit on orders (unit)")
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  while true do
    local new = sql([[
      insert into orders (user_id, unit)
      select $1, coalesce(max(unit), 0) + 1 from orders having coalesce(max(unit), 0) < $2
      on conflict do nothing]], user, total)
    if new.affected == 1 then return true end
    if #sql("select 1 from orders where user_id = $1", user) > 0 then return true end
    if #sql("select 1 from orders where unit >= $1", total) > 0 then return false end
  end
end
