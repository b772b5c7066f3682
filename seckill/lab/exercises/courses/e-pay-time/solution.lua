function prepare()
  sql("create table placed (user_id bigint primary key)") -- orders that wait for their payment
end

-- The unit is taken at the order. The payment comes after the answer.
function buy(user)
  think()
  local kept = tx(function()
    if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
    sql("insert into placed (user_id) values ($1)", user)
  end)
  if not kept then return false end
  later(function()
    sql("insert into orders (user_id) values ($1)", user) -- it is shipped
  end)
  return true
end
