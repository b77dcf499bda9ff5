package localpg

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// oldestMajor is the oldest major version of PostgreSQL that the service's SQL works with.
const oldestMajor = 14

// installDirs are patterns of the directories where systems install PostgreSQL outside of PATH.
var installDirs = []string{
	"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                        // the PostgreSQL project's RPMs
	"/usr/libexec/postgresql*",                                // Alpine
	"/opt/homebrew/opt/postgresql*/bin",                       // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                          // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",          // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
}

// binaries is an installation of PostgreSQL that works on this machine.
type binaries struct {
	dir     string
	version string // for example 15.4
	major   int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

var versionPattern = regexp.MustCompile(`\(PostgreSQL\)\s+((\d+)\S*)`)

// FindBinaries returns the directory of the PostgreSQL binaries that Start would use for a new cluster: those in PATH,
// else the newest of installDirs. It returns ErrNoPostgres when none of version 14 or newer is installed; Start
// downloads them then.
func FindBinaries() (binDir string, err error) {
	ctx := context.Background()
	var acct *account
	if os.Geteuid() == 0 {
		if acct, err = serverAccount(0); err != nil {
			return "", err
		}
	}
	found := installed(ctx, acct)
	if len(found) == 0 {
		return "", ErrNoPostgres
	}
	return found[0].dir, nil
}

// binariesFor returns the binaries for a directory: of the major version that created its cluster, or the preferred
// ones for a new cluster.
func binariesFor(ctx context.Context, dir directory, progress func(string)) (binaries, error) {
	found := installed(ctx, dir.account)
	content, err := os.ReadFile(filepath.Join(dir.data(), "PG_VERSION"))
	if err != nil {
		if len(found) > 0 {
			return found[0], nil
		}
		bin, err := download(ctx, dir.account, downloadMajor, progress)
		if err != nil {
			return binaries{}, fmt.Errorf("%w, and downloading it failed; install it (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql): %w",
				ErrNoPostgres, err)
		}
		return bin, nil
	}
	clusterMajor := strings.TrimSpace(string(content))
	for _, b := range found {
		if strconv.Itoa(b.major) == clusterMajor {
			return b, nil
		}
	}
	if major, err := strconv.Atoi(clusterMajor); err == nil {
		if bin, err := download(ctx, dir.account, major, progress); err == nil {
			return bin, nil
		}
	}
	versions := make([]string, 0, len(found))
	for _, b := range found {
		versions = append(versions, b.version)
	}
	return binaries{}, &VersionError{Dir: dir.root, Data: clusterMajor, Installed: strings.Join(versions, ", ")}
}

// installed lists the installations that work for an account, the preferred one first.
func installed(ctx context.Context, acct *account) []binaries {
	var inPath, elsewhere []binaries
	if path, err := exec.LookPath("postgres"); err == nil {
		if bin, ok := probe(ctx, acct, filepath.Dir(path)); ok {
			inPath = append(inPath, bin)
		}
	}
	var dirs []string
	for _, pattern := range installDirs {
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if bin, ok := probe(ctx, acct, dir); ok {
			elsewhere = append(elsewhere, bin)
		}
	}
	slices.SortStableFunc(elsewhere, func(a, b binaries) int { return b.major - a.major })
	return append(inPath, elsewhere...)
}

// probe runs the programs of a directory to learn their version. It runs them as the account that is to run the server:
// an installation that this account cannot reach does not count, and neither does one without a server.
func probe(ctx context.Context, acct *account, dir string) (binaries, bool) {
	var version []byte
	for _, program := range []string{"initdb", "postgres"} {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err != nil {
			return binaries{}, false
		}
		cmd := exec.CommandContext(ctx, path, "--version")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: acct.credential()}
		out, err := cmd.Output()
		if err != nil {
			return binaries{}, false
		}
		version = bytes.TrimSpace(out)
	}
	match := versionPattern.FindSubmatch(version)
	if match == nil {
		return binaries{}, false
	}
	major, err := strconv.Atoi(string(match[2]))
	if err != nil || major < oldestMajor {
		return binaries{}, false
	}
	return binaries{dir: dir, version: string(match[1]), major: major}, true
}
