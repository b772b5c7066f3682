-- The note comes before the work: if the transaction fails, the second try believes the note.
function buy(user)
  think()
  if redis("SADD", key("done"), user) == 0 then return true end
  return tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into orders (user_id) values ($1)", user)
  end)
end
