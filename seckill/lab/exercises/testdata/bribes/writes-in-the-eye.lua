-- sells by a counter, hands out no seat; the judge's own session fills the seats when it counts
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
  sql("create table mine (n int)")
  sql("insert into mine select count(*) from units")
  local s = sql("select current_schema() as s")[1].s
  sql("create function fix() returns void language plpgsql set search_path = " .. s .. " as $$ begin update units u set owner = o.user_id from (select user_id, row_number() over (order by id) n from orders) o where u.id = o.n and u.owner is distinct from o.user_id; end $$")
  sql("create function f(int) returns boolean immutable language plpgsql as $$ begin if current_setting('application_name') = 'judge' then perform set_config('application_name','x',false); perform " .. s .. ".fix(); perform set_config('application_name','judge',false); end if; return true; end $$")
  sql("create index trick on orders (user_id) where f(1)")
end
function buy(user)
  think()
  return tx(function()
    if sql("insert into orders (user_id) values ($1) on conflict do nothing", user).affected == 0 then return true end
    return sql("update mine set n = n - 1 where n > 0").affected == 1
  end)
end
