function prepare()
  sql("create table placed (user_id bigint primary key)") -- orders that wait for their payment
end

-- The unit is taken at the payment, which comes after the answer.
function buy(user)
  if sql("select stock from item")[1].stock == 0 then return false end
  think()
  sql("insert into placed (user_id) values ($1)", user)
  later(function()
    tx(function()
      if sql("update item set stock = stock - 1 where stock > 0").affected == 0 then return false end
      sql("insert into orders (user_id) values ($1)", user) -- it is shipped
    end)
  end)
  return true
end
