-- "on conflict do nothing" is no error: the statement succeeds, and the unit of a second click is gone.
function prepare()
  sql("create unique index one_order_per_user on orders (user_id)")
end

function buy(user)
  think()
  sql([[
    with taken as (update item set stock = stock - 1 where stock > 0 returning 1)
    insert into orders (user_id) select $1 from taken on conflict do nothing]], user)
  return #sql("select 1 from orders where user_id = $1", user) > 0
end
