-- The check is inside the write. It never oversells.
-- Wrong: a buyer who clicks twice gets two orders, and a process that dies between the statements loses a unit.

-- think
update item set stock = stock - 1 where stock > 0;
insert into orders (user_id) values (:user);
