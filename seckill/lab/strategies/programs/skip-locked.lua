-- One row for each unit, as a cinema has one for each seat. A buyer takes the first free row that no
-- other transaction has locked. No buyer waits for another.
--
-- The trap: no row found does not mean sold out. The last rows may be locked by transactions that roll
-- back, such as a second click. So ask again, without skipping, before you say no.

function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  sql("insert into units (id) select generate_series(1, (select stock from item))")
end

function buy(user)
  think()
  while true do
    local ok, got = pcall(tx, function()
      local unit = sql([[
        update units set owner = $1
        where  id = (select id from units where owner is null limit 1 for update skip locked)]], user)
      if unit.affected == 0 then return false end
      sql("insert into orders (user_id) values ($1)", user) -- the index refuses a second order
    end)
    if ok and got then return true end
    if not ok and tostring(got):find("SQLSTATE 23505") then return true end
    if not ok then error(got, 0) end
    if #sql("select 1 from units where owner is null limit 1") == 0 then return false end
    think() -- until the transactions that lock the last units have ended
  end
end
