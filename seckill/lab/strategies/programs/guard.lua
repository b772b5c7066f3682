-- The check is inside the write: take a unit only if there is one. If no row changes, it is sold out.
--
-- It never oversells, with any number of processes: the database locks the row, reads it and writes it
-- in one statement. Wrong in two other ways: a buyer who clicks twice gets two orders, and a process
-- that dies between the two statements loses a unit. guard-unique solves both.

function buy(user)
  think()
  if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
