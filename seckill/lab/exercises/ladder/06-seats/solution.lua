function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  while true do
    local yes = tx(function()
      local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
      if new.affected == 0 then return true end
      local seat = sql([[
        update units set owner = $1
        where  id = (select id from units where owner is null limit 1 for update skip locked)]], user)
      return seat.affected == 1
    end)
    if yes then return true end
    if #sql("select 1 from units where owner is null limit 1") == 0 then return false end
    think() -- a free seat is locked: wait for what becomes of it
  end
end
