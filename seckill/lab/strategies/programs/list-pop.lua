-- A token for each unit in a Redis list. LPOP hands out each token once. SADD reports 1 to the first
-- click of a buyer only, and comes first: a double click takes no token.
--
-- Right under any crowd, without a script. A process that dies after LPOP takes its tokens with it, and
-- the set refuses those buyers for good: units stay unsold. Run it with the fault kill.

function prepare()
  for i = 1, sql("select stock from item")[1].stock do
    redis("RPUSH", key("tokens"), i)
  end
end

function buy(user)
  think()
  if redis("SADD", key("buyers"), user) == 0 then return false end -- the buyer has clicked before
  if not redis("LPOP", key("tokens")) then return false end -- sold out
  sql("insert into orders (user_id) values ($1)", user)
  return true
end
