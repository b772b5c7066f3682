package sandbox

// RedisProcess returns the process id of the Redis that this process runs; 0 if it runs none as a process of its own.
func (s *Sandbox) RedisProcess() int {
	if s == nil || s.owner == nil {
		return 0
	}
	return s.owner.redis.pid()
}

// PostgresProcess returns the process id of the Postgres that this process runs, 0 if it runs none.
func (s *Sandbox) PostgresProcess() int {
	if s == nil || s.owner == nil {
		return 0
	}
	return s.owner.postgres.pid()
}
