function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    local seat = sql([[
      update units set owner = $1
      where  id = (select id from units where owner is null order by id limit 1)]], user)
    return seat.affected == 1
  end)
end
