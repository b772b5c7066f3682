-- A pessimistic lock: a buyer who reads the row locks it, and all others wait in line.
-- Right, and slow: the buyer in front looks up prices while the others wait.

begin;
select stock from item where stock > 0 for update;
insert into orders (user_id) select :user where not exists (select from orders where user_id = :user);
-- think
update item set stock = stock - 1;
commit;
