//go:build !linux

package crash

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// childrenOf lists the processes that a process has started.
func childrenOf(pid int) ([]int, error) {
	out, err := exec.CommandContext(context.Background(), "pgrep", "-P", strconv.Itoa(pid)).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil, nil // there are none
	}
	if err != nil {
		return nil, err
	}
	var children []int
	for _, field := range strings.Fields(string(out)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}
