-- Finds a free seat in one statement and takes it in another.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  return tx(function()
    local new = sql("insert into orders (user_id) values ($1) on conflict do nothing", user)
    if new.affected == 0 then return true end
    local free = sql("select id from units where owner is null order by id limit 1")[1]
    if not free then return false end
    think()
    sql("update units set owner = $1 where id = $2", user, free.id)
  end)
end
