package localpg

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// attributes of the server's process: a process group of its own, so that Ctrl-C in the terminal reaches only the
// owner, which then stops the server; and SIGINT (fast shutdown) from the kernel when the owner dies without stopping
// it.
func attributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential, Setpgid: true, Pdeathsig: syscall.SIGINT}
}

// programOf returns the file name of the program that a process runs; "" when there is no such process.
func programOf(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	program, _, _ := bytes.Cut(line, []byte{0})
	return filepath.Base(string(program))
}
