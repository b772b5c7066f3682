package alive

import (
	"hash/fnv"
	"iter"
)

// Highest reports whether a key is this process's: of it and all others its name has the highest weight for the key.
func Highest(own, key string, others iter.Seq[string]) bool {
	weight := rendezvous(own, key)
	for name := range others {
		if rendezvous(name, key) > weight {
			return false
		}
	}
	return true
}

// rendezvous returns the weight of a process for a key. The process with the highest one has the key, so only the keys
// of a process that comes or goes move (highest random weight, Thaler and Ravishankar 1998).
func rendezvous(process, key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(process))
	h.Write([]byte{0})
	h.Write([]byte(key))
	x := h.Sum64() // names that differ in their last letters have hashes that differ in few bits: mix them
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
