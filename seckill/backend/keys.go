package backend

// readyKey is a string that each process writes to see whether Redis takes writes. It expires readyLife after the last one.
const readyKey = "ms:ready"
