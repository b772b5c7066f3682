-- Look at the stock first, take a unit afterwards.
-- Wrong: it oversells. Between the two statements other buyers have looked too, and the stock falls below zero.

select stock from item where stock > 0;
-- think
update item set stock = stock - 1;
insert into orders (user_id) values (:user);
