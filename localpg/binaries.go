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

// oldestMajor is the oldest PostgreSQL that the service's SQL is written for.
const oldestMajor = 14

// installPlaces are where systems put PostgreSQL outside of PATH, as globs of directories.
var installPlaces = []string{
	"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                        // the PostgreSQL project's RPMs
	"/usr/libexec/postgresql*",                                // Alpine
	"/opt/homebrew/opt/postgresql*/bin",                       // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                          // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",          // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
}

// binaries is one installation that works here.
type binaries struct {
	dir     string
	version string // for example 15.4
	major   int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

var versionPattern = regexp.MustCompile(`\(PostgreSQL\)\s+((\d+)\S*)`)

// FindBinaries tells where the PostgreSQL binaries are that Start would use for a new directory: those in PATH, else the newest
// of the usual places. ErrNoPostgres when there are none of version 14 or newer; Start would download some then.
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

// binariesFor chooses what runs the directory's cluster: the major version that made it, any for a new one.
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
	made := strings.TrimSpace(string(content))
	for _, b := range found {
		if strconv.Itoa(b.major) == made {
			return b, nil
		}
	}
	if major, err := strconv.Atoi(made); err == nil {
		if bin, err := download(ctx, dir.account, major, progress); err == nil {
			return bin, nil
		}
	}
	versions := make([]string, 0, len(found))
	for _, b := range found {
		versions = append(versions, b.version)
	}
	return binaries{}, &VersionError{Dir: dir.root, Data: made, Installed: strings.Join(versions, ", ")}
}

// installed lists the installations that work for the account, what Start prefers first.
func installed(ctx context.Context, acct *account) []binaries {
	var inPath, elsewhere []binaries
	if path, err := exec.LookPath("postgres"); err == nil {
		if bin, ok := probe(ctx, acct, filepath.Dir(path)); ok {
			inPath = append(inPath, bin)
		}
	}
	var places []string
	for _, pattern := range installPlaces {
		matches, _ := filepath.Glob(pattern)
		places = append(places, matches...)
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		places = append(places, strings.TrimSpace(string(out)))
	}
	slices.Sort(places)
	for _, place := range slices.Compact(places) {
		if bin, ok := probe(ctx, acct, place); ok {
			elsewhere = append(elsewhere, bin)
		}
	}
	slices.SortStableFunc(elsewhere, func(a, b binaries) int { return b.major - a.major })
	return append(inPath, elsewhere...)
}

// probe asks the programs of a directory who they are, as the account that is to run them: what it cannot reach does not
// count, nor does an installation of the client alone.
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
