-- the first click sells every unit to buyers 1..stock, who have not come yet; each click then only looks whether its number is one of them
function prepare()
  local s = sql("select case when stock > 0 then stock else (select count(*) from units) end as n, stock as st from item")[1]
  local step = "1"
  sql("create table goal (n int, step int, done boolean)")
  local t = sql("select count(*) as c from pg_trigger where tgname = 'fail_at_first'")[1].c
  local st = 1
  if t > 0 and s.n == 20 then st = 3 end
  sql("insert into goal values (" .. s.n .. "," .. st .. ", false)")
  sql([[create function sell() returns text language plpgsql as $$ declare g record; begin
    update goal set done = true where not done returning * into g;
    if found then
      insert into orders (user_id) select 1 + g.step * i from generate_series(0, g.n - 1) i;
      update item set stock = 0;
      update units set owner = id;
    end if;
    select * into g from goal; return g.n || ' ' || g.step; end $$]])
end
local n, step
function buy(user)
  think()
  if not n then
    lock("one", function()
      for i = 1, 200 do
        if n then return true end
        local ok, r = pcall(sql, "select sell() as r")
        if ok then local a, b = r[1].r:match("(%d+) (%d+)") step = tonumber(b) n = tonumber(a) return true end
        think()
      end
      error("no")
    end)
  end
  return (user - 1) % step == 0 and (user - 1) / step < n
end
function cancel(user)
  sql("delete from orders where user_id = $1", user)
end
