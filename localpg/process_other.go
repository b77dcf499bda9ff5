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

// attributes of the server's process: a process group of its own, so that Ctrl-C in the terminal reaches only the
// owner, which then stops the server. On these systems a server survives the death of its owner; the next Start ends
// it.
func attributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential, Setpgid: true}
}

// programOf returns the file name of the program that a process runs; "" when there is no such process.
func programOf(pid int) string {
	out, err := exec.CommandContext(context.Background(), "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSpace(string(out)))
}
