//go:build !unix

package bench

// RaiseFileLimit does nothing where open files have no limit of their own.
func RaiseFileLimit(int) error { return nil }
