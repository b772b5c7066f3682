//go:build !faults

package failpoint

// Hit does nothing in a build without the tag faults.
func Hit(string) error { return nil }
