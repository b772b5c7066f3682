-- guard with the window of the sale in the same condition. The database's clock decides for all
-- processes, at the moment of the write. Use clock_timestamp(): now() is the start of the transaction,
-- which may have waited for the row.
--
-- Never too early, too late or too many. A double click still gets two orders: see guard-unique.

function buy(user)
  think()
  local taken = sql([[
    update item set stock = stock - 1
    where  stock > 0
    and    clock_timestamp() >= starts_at and clock_timestamp() < ends_at]])
  if taken.affected == 0 then return false end
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
