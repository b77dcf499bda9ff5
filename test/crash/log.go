package crash

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// checkLog searches the nodes' log for what no kill may cause: a panic, a data race, or a failed component.
func (t *trial) checkLog() error {
	file, err := os.Open(t.logFile())
	if err != nil {
		return fmt.Errorf("the nodes' log: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, bad := range []string{"panic", "fatal error", "DATA RACE", "a component failed"} {
			if strings.Contains(lines.Text(), bad) {
				t.violations.add("the node's log", "%.300s", lines.Text())
			}
		}
	}
	return lines.Err()
}
