-- published: what the processes have published of the gates that they read, and the time.
--
-- KEYS  1 the publications
--
-- Returns this server's time in seconds and microseconds, and then each process and its publication. All times of publications
-- come from here: in a Cluster, from the one node that has the key. What the caller reads next is not older than the time.
local time = redis.call('TIME')
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, time[2])
table.insert(reply, 1, time[1])
return reply
