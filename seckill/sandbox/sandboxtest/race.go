//go:build race

package sandboxtest

func init() { buildFlags = append(buildFlags, "-race") }
