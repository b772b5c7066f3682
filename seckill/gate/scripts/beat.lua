-- beat: raise the beat of a process, and read those of all.
--
-- KEYS  1 beats
-- ARGV  1 the process  2 ms after which the beats expire
--
-- Returns each process, and then its beat. It is one step, so a process always sees itself. A second run beats once more. An HDEL comes
-- first, of nothing: see ack. While memory is out, the tickets of the dead are settled too, which frees some.
redis.call('HDEL', KEYS[1], '')
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HGETALL', KEYS[1])
