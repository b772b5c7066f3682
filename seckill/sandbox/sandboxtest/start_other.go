//go:build !linux

package sandboxtest

func (s *Shop) start() error { return s.cmd.Start() }
