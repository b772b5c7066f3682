package backend

// readyKey is a string that each process writes to see whether Redis takes writes. It expires readyLife after the last
// one. Like those of package lineage, which has the prefix too, it is a key of no incarnation.
const readyKey = "ms:{shop}:ready"
