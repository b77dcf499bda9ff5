package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asProgram makes the test binary behave as the program, so that the tests run it for real without building it again.
const asProgram = "LEDGERLINE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience bounds every wait.
const patience = 60 * time.Second

// text is what a process has written so far.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *text) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// program is a process of the program.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err text
	ended    chan struct{}
}

// launch starts the program. It is killed with the test at the latest.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return launchWith(t, "", args...)
}

// launchWith is launch with something on the standard input.
func launchWith(t *testing.T, input string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{t: t, cmd: exec.CommandContext(context.Background(), self, args...), ended: make(chan struct{})}
	p.cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.Getenv("TMPDIR")}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(input), &p.out, &p.err
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the exit code tells
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// code waits for the end and gives the exit code; -1 after a signal.
func (p *program) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, "the program does not end", p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// signal sends a signal and gives the exit code.
func (p *program) signal(s syscall.Signal) int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	return p.code()
}

// tool runs the program to its end and gives its result, which must be a success.
func tool(t *testing.T, into any, args ...string) {
	t.Helper()
	p := launch(t, args...)
	require.Equal(t, exitOK, p.code(), "%v: %s", args, p.err.String())
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(p.out.String()), into), "%v: %s", args, p.out.String())
	}
}

// folder is a place for data that the database's user can reach.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ledgerline-cmd-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "data")
}

// startDev starts a dev and returns when it answers.
func startDev(t *testing.T, dir string, args ...string) (*program, *devFile) {
	t.Helper()
	p := launch(t, append([]string{"dev", "--addr", "127.0.0.1:0", "--data", dir}, args...)...)
	var f *devFile
	require.Eventually(t, func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		if !strings.Contains(p.err.String(), "Ledgerline is running") { // a dev that was killed has left its dev.json
			return false
		}
		var err error
		f, err = readDevFile(dataDir(dir))
		return err == nil
	}, patience, 10*time.Millisecond, "the dev does not start: %s", &p.err)
	require.NotNil(t, f, p.err.String())
	return p, f
}

// postgresOf is the process of a folder's private PostgreSQL.
func postgresOf(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	var pid int
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(string(content), "\n", 2)[0]), &pid))
	return pid
}

// runs tells whether a process is alive. One that has ended and that nobody waits for is not.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// request sends JSON and gives the answer's status and body.
func request(t *testing.T, method, url, token, body string) (int, answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var a answer
	require.NoError(t, json.Unmarshal(raw, &a), string(raw))
	return response.StatusCode, a
}

// answer is a JSON object.
type answer map[string]any

// text finds a text below names; "" when there is none.
func (a answer) text(names ...string) string {
	var value any = map[string]any(a)
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	found, _ := value.(string)
	return found
}
