package service

import (
	"syscall"
	"time"
)

// deadAfter is how long sent bytes may stay without an acknowledgement.
const deadAfter = 8 * time.Second

// setUserTimeout has the kernel end a connection whose peer acknowledges nothing.
func setUserTimeout(_, _ string, raw syscall.RawConn) error {
	const tcpUserTimeout = 0x12 // TCP_USER_TIMEOUT, which package syscall does not name
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadAfter.Milliseconds()))
	}); err != nil {
		return err
	}
	if failed == syscall.ENOPROTOOPT || failed == syscall.EOPNOTSUPP { // not a TCP socket
		return nil
	}
	return failed
}
