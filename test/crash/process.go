package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ledgerline/adapters/simulator"
)

// lease is how long the tasks of a killed node stay leased. It is shorter than the default, so that in each round the
// new node takes over the tasks of the killed one.
const lease = 2 * time.Second

const (
	nodeStartLimit = 60 * time.Second
	nodeStopLimit  = 45 * time.Second
	controlLimit   = 30 * time.Second
)

// node is a running process of the service.
type node struct {
	cmd     *exec.Cmd
	input   io.Closer
	address nodeAddress
	ended   chan struct{}
	failure error // result of the process; valid after ended is closed
}

func (t *trial) keyringFile() string { return filepath.Join(t.dir, "keyring.json") }
func (t *trial) logFile() string     { return filepath.Join(t.dir, "node.log") }

// startNode starts a node and returns when it serves requests.
func (t *trial) startNode(ctx context.Context) error {
	log, err := os.OpenFile(t.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("the node's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), t.Node[0], t.Node[1:]...)
	cmd.Stderr = log
	input, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	n := &node{cmd: cmd, input: input, ended: make(chan struct{})}
	addressRead := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(output).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &n.address)
		}
		addressRead <- err
		_, _ = io.Copy(io.Discard, output)
		n.failure = cmd.Wait()
		close(n.ended)
	}()
	if t.ahead == 0 {
		t.ahead = time.Until(opening(time.Now()))
	}
	err = json.NewEncoder(input).Encode(nodeConfig{DSN: t.server.dsn(), Keyring: t.keyringFile(), Ahead: t.ahead, Lease: lease})
	if err == nil {
		limit := time.NewTimer(nodeStartLimit)
		defer limit.Stop()
		select {
		case err = <-addressRead:
		case <-limit.C:
			err = errors.New("it does not report its address")
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		n.kill()
		return fmt.Errorf("start the node: %w, see %s", err, t.logFile())
	}
	t.node = n
	t.address.Store(&n.address.API)
	return nil
}

// kill kills the process with SIGKILL and returns when it has ended.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.ended
}

// stop closes the node's input, which makes it shut down, and waits for that.
func (n *node) stop() error {
	_ = n.input.Close()
	limit := time.NewTimer(nodeStopLimit)
	defer limit.Stop()
	select {
	case <-n.ended:
		return n.failure
	case <-limit.C:
		n.kill()
		return errors.New("the node does not end after its input was closed")
	}
}

// control sends a request to the node's control address.
func (t *trial) control(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, controlLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, t.node.address.Control+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the node: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the node: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the node: %s %s: %s", method, path, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("ask the node: %w", err)
	}
	return nil
}

// advance moves the service's clock.
func (t *trial) advance(ctx context.Context, d time.Duration) error {
	t.ahead += d
	t.moved += d
	return t.control(ctx, http.MethodPost, "/clock?ahead="+t.ahead.String(), nil)
}

// simulated is what the simulator accepted.
type simulated struct {
	Sends      int64            `json:"sends"`
	Duplicates int64            `json:"duplicates"`
	Messages   []simulator.Seen `json:"messages"`
}
