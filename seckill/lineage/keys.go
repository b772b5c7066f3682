package lineage

// These keys carry one hash tag, so one script may use them together in a Redis Cluster. The first two do not
// expire: a Redis without them has no past.
const (
	// pattern finds every key of a shop.
	pattern = "ms:*"

	// ownPrefix is the beginning of the keys of no incarnation.
	ownPrefix = "ms:{shop}:"

	// marksKey is a hash: shop, incarnation, server, and the numbers that the shop has seen in Postgres, see numbers.
	marksKey = "ms:{shop}:marks"

	// processesKey is a sorted set: the processes that use this Redis, as incarnation, database and name, sorted by the
	// time at which each was last seen. One that was not seen for an hour leaves it when a process starts.
	processesKey = "ms:{shop}:processes"

	// aloneKey is a string: the process that deletes what is there of another incarnation. It expires aloneFor after
	// the last keys that it has deleted.
	aloneKey = "ms:{shop}:alone"
)

// probeKey is a key of Probe, which deletes it. It expires after aloneFor.
func probeKey(probe, name string) string { return "ms:{probe-" + probe + "}:" + name }
