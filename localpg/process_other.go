//go:build !linux

package localpg

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes of the server's process: a group of its own, so that a Ctrl-C in the terminal reaches its owner alone, which
// then stops it in order. Here the kernel does not end it with its owner; the next Start does.
func attributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential, Setpgid: true}
}

// programOf is the file name of the program that a process runs, "" when there is no such process.
func programOf(pid int) string {
	out, err := exec.CommandContext(context.Background(), "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSpace(string(out)))
}
