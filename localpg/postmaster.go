package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// defaults are settings for a small machine, with full durability.
var defaults = map[string]string{
	"listen_addresses":        "127.0.0.1",
	"unix_socket_directories": "", // TCP only: socket paths have a limited length
	"max_connections":         "200",
	"shared_buffers":          "256MB",
	"max_wal_size":            "2GB",
	"jit":                     "off", // our statements are short: compiling them takes longer than running them
	"timezone":                "UTC",
	"log_timezone":            "UTC",
	"lc_messages":             "C", // launch below recognises messages
	"log_line_prefix":         "%m [%p] ",
	// The log contains neither failed statements nor the DETAIL of errors, which quotes rows: both may contain personal
	// data.
	"log_min_error_statement": "panic",
	"log_error_verbosity":     "terse",
}

// locales are options for a new cluster, of which the first that works is used: text sorts by code point, and upper and
// lower case cover all of Unicode where the system supports that.
var locales = [][]string{
	{"--locale=C.UTF-8"},
	{"--locale=C", "--lc-ctype=en_US.UTF-8"},
	{"--locale=C"},
}

const (
	startLimit  = 2 * time.Minute // including recovery after a crash
	largestLog  = 16 << 20        // bytes; a larger log is emptied at the start
	portTries   = 5
	orphanLimit = 30 * time.Second
)

// process is a server process that this process has started.
type process struct {
	pid  int
	done chan struct{} // closed when the process has ended and was waited for
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// postmaster is what postmaster.pid says about a server.
type postmaster struct {
	pid, port int
	ready     bool
}

func readPostmaster(data string) (postmaster, error) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, err
	}
	lines := strings.Split(string(content), "\n")
	var pm postmaster
	if pm.pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil {
		return postmaster{}, fmt.Errorf("localpg: postmaster.pid: %w", err)
	}
	if len(lines) > 7 { // fewer lines: the server is still writing the file
		pm.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
		pm.ready = strings.TrimSpace(lines[7]) == "ready"
	}
	return pm, nil
}

// alive reports whether there is a process with this id.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// endOrphan ends the server that a killed owner has left behind in the directory, and waits for its end. It also
// repairs a left-over postmaster.pid that would keep PostgreSQL from starting. The caller holds the lock.
func (d directory) endOrphan(ctx context.Context, progress func(string)) error {
	pm, err := readPostmaster(d.data())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		// Empty or cut off by a power failure. PostgreSQL does not start with such a file.
		return os.Remove(filepath.Join(d.data(), "postmaster.pid"))
	}
	if !alive(pm.pid) {
		return nil // PostgreSQL removes the file itself
	}
	if program := programOf(pm.pid); program != "postgres" && program != "postmaster" {
		return d.replaceReusedPID()
	}
	progress(fmt.Sprintf("waiting for the PostgreSQL server %d that an earlier run left behind to end", pm.pid))
	if err := syscall.Kill(pm.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("localpg: end the left-over PostgreSQL server %d: %w", pm.pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, orphanLimit)
	defer cancel()
	for alive(pm.pid) {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the PostgreSQL server %d, left behind by an earlier run on %s, does not end: end it by hand: %w",
				pm.pid, shortPath(d.root), err)
		}
	}
	return nil
}

// replaceReusedPID replaces the process id in postmaster.pid by our own. After a restart of the machine another program
// may have the old server's id, and PostgreSQL would take that program for a running server. It never takes its parent
// process for one. Removing the file instead would also disable PostgreSQL's check for shared memory that is still in
// use.
func (d directory) replaceReusedPID() error {
	path := filepath.Join(d.data(), "postmaster.pid")
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	_, rest, _ := bytes.Cut(content, []byte("\n"))
	if err := os.WriteFile(path, append([]byte(strconv.Itoa(os.Getpid())+"\n"), rest...), 0o600); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

// create creates the cluster if there is none, completely or not at all, and returns the role's password.
func (d directory) create(ctx context.Context, bin binaries, cfg Config) (string, error) {
	if _, err := os.Stat(d.data()); err == nil {
		return d.password()
	}
	cfg.Progress(fmt.Sprintf("creating the database in %s (PostgreSQL %s)", shortPath(d.root), bin.version))
	password, err := d.newPassword()
	if err != nil {
		return "", err
	}
	unfinished := d.data() + ".new"
	var out []byte
	for _, locale := range locales {
		if err := os.RemoveAll(unfinished); err != nil {
			return "", fmt.Errorf("localpg: %w", err)
		}
		args := append([]string{
			"--pgdata=" + unfinished, "--username=" + roleName, "--auth=scram-sha-256", "--pwfile=" + d.passwordFile(),
			"--encoding=UTF8", "--no-instructions",
		}, locale...)
		if cfg.Settings["fsync"] == "off" {
			args = append(args, "--no-sync")
		}
		cmd := d.command(ctx, bin.path("initdb"), args...)
		if out, err = cmd.CombinedOutput(); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("localpg: initdb: %w: %s", err, lastLines(out))
	}
	if err := os.Rename(unfinished, d.data()); err != nil {
		return "", fmt.Errorf("localpg: %w", err)
	}
	return password, nil
}

// command returns the command that runs a program of PostgreSQL in the directory as the server's user.
func (d directory) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = d.root // the server's user may not be able to enter the caller's working directory
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.account.credential()}
	return cmd
}

// launch starts the server and waits until it accepts connections. It tries again in two cases: another program took
// the port between our choice and the start, or the last processes of a server that was just killed are still ending.
func (d directory) launch(ctx context.Context, bin binaries, cfg Config) (*process, int, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for try := 1; ; try++ {
		port := cfg.Port
		if port == 0 {
			var err error
			if port, err = freePort(ctx); err != nil {
				return nil, 0, err
			}
		}
		proc, output, err := d.launchOn(ctx, bin, port, cfg)
		if err == nil {
			return proc, port, nil
		}
		switch {
		case strings.Contains(output, "Address already in use"):
			if cfg.Port != 0 {
				return nil, 0, &PortTakenError{Port: port}
			}
			if try == portTries {
				return nil, 0, err
			}
		case strings.Contains(output, "pre-existing shared memory block"):
			if pauseErr := pause(ctx); pauseErr != nil {
				return nil, 0, err
			}
		default:
			return nil, 0, err
		}
	}
}

// launchOn tries once. output is what the server wrote to its log.
func (d directory) launchOn(ctx context.Context, bin binaries, port int, cfg Config) (proc *process, output string, err error) {
	if info, err := os.Stat(d.logFile()); err == nil && info.Size() > largestLog {
		_ = os.Truncate(d.logFile(), 0)
	}
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("localpg: %w", err)
	}
	defer func() { _ = log.Close() }()
	before, err := log.Seek(0, 2)
	if err != nil {
		return nil, "", fmt.Errorf("localpg: %w", err)
	}

	settings := maps.Clone(defaults)
	maps.Copy(settings, cfg.Settings)
	settings["port"] = strconv.Itoa(port)
	args := []string{"-D", d.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	// Stop ends the server, not the end of the context.
	cmd := d.command(context.WithoutCancel(ctx), bin.path("postgres"), args...)
	cmd.SysProcAttr = attributes(d.account.credential())
	cmd.Stdout, cmd.Stderr = log, log
	proc, err = spawn(cmd)
	if err != nil {
		return nil, "", fmt.Errorf("localpg: start %s: %w", cmd.Path, err)
	}
	if err := d.awaitReady(ctx, proc, cfg.Progress); err != nil {
		if proc.running() {
			_ = syscall.Kill(proc.pid, syscall.SIGQUIT)
			<-proc.done
		}
		content, _ := os.ReadFile(d.logFile())
		written := content[min(int(before), len(content)):]
		return nil, string(written), fmt.Errorf("localpg: PostgreSQL did not start: %w: %s", err, lastLines(written))
	}
	return proc, "", nil
}

// spawn starts a command on a thread that lives as long as the command. On Linux the death signal set by attributes is
// sent when the parent thread ends, not the parent process, and Go ends threads at any time unless a goroutine is
// locked to them.
func spawn(cmd *exec.Cmd) (*process, error) {
	proc := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(proc.done)
		err := cmd.Start()
		if err == nil {
			proc.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return proc, <-started
}

// awaitReady waits until postmaster.pid says that the server accepts connections.
func (d directory) awaitReady(ctx context.Context, proc *process, progress func(string)) error {
	slow := time.AfterFunc(3*time.Second, func() { progress("PostgreSQL is still starting, it may be recovering from a crash") })
	defer slow.Stop()
	for {
		if pm, err := readPostmaster(d.data()); err == nil && pm.pid == proc.pid && pm.ready {
			return nil
		}
		if !proc.running() {
			return errors.New("it ended while starting")
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// lastLines shortens a program's output for an error message.
func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
