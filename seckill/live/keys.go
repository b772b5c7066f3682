package live

import "time"

// All keys carry the hash tag {live}: one slot of a Redis Cluster, so one command reads the figures of all processes.

// figuresKey is a string: the figures of one process. It lives for figuresLife, so a process that dies is missed.
func figuresKey(process string) string { return "ms:{live}:figures:" + process }

const (
	// processesKey is a sorted set: the processes, sorted by when they last wrote. A process that stops takes itself
	// out; one that is missing for forgetAfter is taken out by the others. It expires with the last of them.
	processesKey = "ms:{live}:processes"

	// countingKey is a string: one process at a time reads the totals from Postgres for all. It lives for countingLife.
	countingKey = "ms:{live}:counting"

	// totalsKey is a string: what it has read. It lives for figuresLife.
	totalsKey = "ms:{live}:totals"

	figuresLife  = 5 * time.Second
	countingLife = 700 * time.Millisecond
	forgetAfter  = 10 * time.Minute
)
