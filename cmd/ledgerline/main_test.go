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

// asProgram is the environment variable that makes the test binary run as the program, so that tests need not build it.
const asProgram = "LEDGERLINE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience bounds every wait of a test.
const patience = 60 * time.Second

// text collects the output of a process.
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

// program is a running process of the program.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err text
	ended    chan struct{}
}

// launch starts the program. It is killed when the test ends.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	return launchWith(t, "", args...)
}

// launchWith is launch with a text as standard input.
func launchWith(t *testing.T, input string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{t: t, cmd: exec.CommandContext(context.Background(), self, args...), ended: make(chan struct{})}
	p.cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.Getenv("TMPDIR")}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(input), &p.out, &p.err
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // code reads the exit code
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// code waits for the end and returns the exit code; -1 after a signal.
func (p *program) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, "the program does not end", p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// signal sends a signal and returns the exit code.
func (p *program) signal(s syscall.Signal) int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	return p.code()
}

// tool runs the program, requires success, and decodes its result into a value.
func tool(t *testing.T, into any, args ...string) {
	t.Helper()
	p := launch(t, args...)
	require.Equal(t, exitOK, p.code(), "%v: %s", args, p.err.String())
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(p.out.String()), into), "%v: %s", args, p.out.String())
	}
}

// folder is the path of a new data directory that the user of the database can reach.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ledgerline-cmd-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "data")
}

// startDev starts a dev and waits until it answers.
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
		if !strings.Contains(p.err.String(), "Ledgerline is running") { // a killed dev leaves its dev.json
			return false
		}
		var err error
		f, err = readDevFile(dataDir(dir))
		return err == nil
	}, patience, 10*time.Millisecond, "the dev does not start: %s", &p.err)
	require.NotNil(t, f, p.err.String())
	return p, f
}

// postgresOf is the process id of the private PostgreSQL of a data directory.
func postgresOf(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	require.NoError(t, err)
	var pid int
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(string(content), "\n", 2)[0]), &pid))
	return pid
}

// runs reports whether a process is alive. A zombie is not.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// request sends JSON and returns the answer's status and body.
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

// text returns the text at a path of names; "" when there is none.
func (a answer) text(names ...string) string {
	var value any = map[string]any(a)
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	found, _ := value.(string)
	return found
}
