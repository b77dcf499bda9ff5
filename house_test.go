// Package house_test holds the walls of the house: which package may import which.
package house_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "ledgerline"

// walls says which of our packages a package may import. The most specific pattern that fits a package counts; "x/..." is x and
// everything below it. A package below an allowed one needs its own entry or a "/...".
var walls = map[string][]string{
	"events":         {},
	"clock":          {}, // may be imported where it is listed; never by domain and events, which get times passed in
	"csvfile":        {},
	"domain/...":     {"events", "domain/..."},
	"eventstore/...": {"events", "domain/fault", "clock", "eventstore/..."},
	"commands/...":   {"csvfile", "domain/...", "eventstore/...", "events", "clock", "commands/..."},
	// Of the domain, projections and the read side use values alone; a decision is a method on an aggregate, and none is
	// made there. That is for the reviewer to see.
	"projections/...": {"events", "eventstore/...", "domain/...", "clock", "projections/..."},
	"processes/...":   {"commands/...", "projections/...", "events", "eventstore/...", "domain/...", "clock", "processes/..."},
	// The packages that declare the ports which adapters implement.
	"adapters/...": {"processes/carrier", "processes/webhooks", "events", "domain/fault", "clock", "adapters/..."},
	"httpapi/...":  {"domain/fault", "clock", "httpapi/..."},
	"writeapi/...": {"httpapi/...", "commands/...", "projections/...", "domain/...", "processes/webhooks/payload", "writeapi/..."}, // payload: the documentation of webhooks
	"readapi/...":  {"csvfile", "httpapi/...", "projections/...", "domain/...", "readapi/..."},
	"toolapi/...":  {"httpapi/...", "readapi/...", "writeapi/...", "projections/...", "domain/...", "toolapi/..."},
	"migrations":   {},
	"localpg":      {},
	"test/...":     {"..."},
	"service/...":  {"adapters/...", "clock", "commands/...", "domain/...", "events", "eventstore/...", "httpapi/...", "migrations", "processes/...", "projections/...", "readapi/...", "toolapi/...", "writeapi/..."},
	"cmd/...":      {"..."},
}

// importers closes some packages to all but these.
var importers = map[string][]string{
	"localpg": {"test/...", "cmd/..."},
	// The imports of test files are not checked here. The commands bench and crash are part of the program.
	"test/...": {"test/...", "cmd/..."},
	// Suites and stand-ins for tests alone.
	"processes/carrier/carriertest":        {},
	"adapters/bluebubbles/bluebubblestest": {},
}

// impure is what the domain may not reach for: what the world is like, or what time it is, is passed in.
var impure = []string{
	"context", "crypto/rand", "database/sql", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec",
	"runtime", "sync", "sync/atomic", "syscall", "github.com/jackc/pgx/v5",
}

// timekeepers may read the machine's time; everybody else asks the clock.
var timekeepers = []string{"clock", "cmd/...", "test/...", "localpg"}

// realTime are the files outside of them that measure how long something takes here and now. Nothing that they read from the
// machine is stored, shown or compared with a time that is; a clock that is frozen or moved by hand would stop or break them.
var realTime = map[string]string{
	"adapters/poster/poster.go":       "how long a receiver took to answer",
	"eventstore/committer.go":         "how long to go on trying to reach the database",
	"eventstore/feed/subscriber.go":   "how long a checkpoint has stood still",
	"eventstore/feed/tail.go":         "how long ago the database was asked",
	"eventstore/feed/listen.go":       "how long a connection has held",
	"httpapi/endpoint.go":             "how long a client of a download has taken nothing",
	"httpapi/jwks.go":                 "how old fetched keys are",
	"httpapi/observe.go":              "how long a request took",
	"httpapi/ratelimit.go":            "limits per second protect the machine",
	"processes/tasks/loop.go":         "leases are about workers that die, whatever the service's time is",
	"service/auth.go":                 "for how many real moments a credential is taken from memory",
	"projections/readmodel/replay.go": "how long a replay took, for its report",

	"adapters/bluebubbles/bluebubblestest/server.go": "a stand-in for a Mac, which has a clock of its own",
}

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// name is the package's path within the module.
func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, string(exit.Stderr))
	}
	require.NoError(t, err)
	var found []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		if p.ImportPath != module { // this test's own directory
			found = append(found, p)
		}
	}
}

func fits(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return name == pattern
}

func fitsAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return fits(pattern, name) })
}

// wallsOf finds the entry for a package; false when nobody has thought about it yet.
func wallsOf(name string) ([]string, bool) {
	best, allowed := "", []string(nil)
	for pattern, list := range walls {
		if fits(pattern, name) && len(pattern) > len(best) {
			best, allowed = pattern, list
		}
	}
	return allowed, best != ""
}

func TestPackagesImportOnlyWhatTheImportTableAllows(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		allowed, known := wallsOf(p.name())
		if !known {
			t.Errorf("%s is in no line of the import table: say what it may import", p.name())
			continue
		}
		for _, imported := range p.Imports {
			ours, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			if !fitsAny(allowed, ours) {
				t.Errorf("%s may not import %s", p.name(), ours)
			}
			for closed, guests := range importers {
				if fits(closed, ours) && !fitsAny(guests, p.name()) {
					t.Errorf("%s may not import %s: only %s may", p.name(), ours, strings.Join(guests, ", "))
				}
			}
		}
	}
}

func TestTheDomainAndTheEventsArePure(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !fits("domain/...", p.name()) && p.name() != "events" {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s may not import %s: what it needs is passed in", p.name(), imported)
			}
		}
	}
}

func TestTimeIsReadFromTheClockAlone(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if fitsAny(timekeepers, p.name()) {
			continue
		}
		for _, file := range p.GoFiles {
			if realTime[p.name()+"/"+file] != "" {
				continue
			}
			for _, place := range callsOfTimeNow(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s/%s:%d reads the machine's time: ask the clock, or say in realTime why not", p.name(), file, place)
			}
		}
	}
}

// callsOfTimeNow lists the lines that use time.Now, time.Since or time.Until, the last two being the first in disguise.
func callsOfTimeNow(t *testing.T, file string) []int {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a file that is being moved while we look
	}
	require.NoError(t, err)
	timeName := ""
	for _, imported := range tree.Imports {
		if value, _ := strconv.Unquote(imported.Path.Value); value == "time" {
			timeName = "time"
			if imported.Name != nil {
				timeName = imported.Name.Name
			}
		}
	}
	if timeName == "" {
		return nil
	}
	var lines []int
	ast.Inspect(tree, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == timeName &&
			slices.Contains([]string{"Now", "Since", "Until"}, selector.Sel.Name) {
			lines = append(lines, set.Position(selector.Pos()).Line)
		}
		return true
	})
	return lines
}
