//go:build !linux

package service

import "syscall"

// setUserTimeout does nothing: only Linux has this option. Keepalives and silenceLimit find lost connections.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
