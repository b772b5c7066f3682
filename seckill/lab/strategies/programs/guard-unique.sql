-- The guard and a unique index in one transaction: a unit and its order, both or neither.

-- prepare
create unique index one_order_per_user on orders (user_id);

-- buy
-- think
begin;
insert into orders (user_id) values (:user) on conflict do nothing;
update item set stock = stock - 1 where stock > 0;
commit;
