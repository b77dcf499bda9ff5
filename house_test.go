// Package house_test checks rules of the whole repository: which package may import which, who may read the machine's
// clock, and that documents and comments keep to their form.
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

// allowedImports lists the packages of this module that a package may import. "x/..." matches x and everything below
// it. The longest pattern that matches a package counts. A package without an entry fails the test.
var allowedImports = map[string][]string{
	"events":         {},
	"clock":          {}, // never by domain and events, which get times passed in
	"csvfile":        {},
	"fairqueue":      {},
	"domain/...":     {"events", "domain/..."},
	"eventstore/...": {"events", "domain/fault", "clock", "eventstore/..."},
	"commands/...":   {"csvfile", "domain/...", "eventstore/...", "events", "clock", "commands/..."},
	// Projections and the read side use only values of the domain. They must not call methods of aggregates that decide,
	// which this test cannot check.
	"projections/...": {"fairqueue", "events", "eventstore/...", "domain/...", "clock", "projections/..."},
	"processes/...":   {"fairqueue", "commands/...", "projections/...", "events", "eventstore/...", "domain/...", "clock", "processes/..."},
	// The packages that declare the ports which adapters implement.
	"adapters/...": {"processes/carrier", "processes/webhooks", "processes/agents", "events", "domain/fault", "clock", "adapters/..."},
	"httpapi/...":  {"domain/fault", "clock", "fairqueue", "httpapi/..."},
	"writeapi/...": {"httpapi/...", "commands/...", "projections/...", "domain/...", "processes/webhooks/payload", "writeapi/..."}, // payload: the documentation of webhooks
	"readapi/...":  {"csvfile", "fairqueue", "httpapi/...", "projections/...", "domain/...", "readapi/..."},
	"toolapi/...":  {"httpapi/...", "readapi/...", "writeapi/...", "projections/...", "domain/...", "toolapi/..."},
	"migrations":   {},
	"localpg":      {},
	"test/...":     {"..."},
	"service/...":  {"adapters/...", "clock", "commands/...", "domain/...", "events", "eventstore/...", "httpapi/...", "migrations", "processes/...", "projections/...", "readapi/...", "toolapi/...", "writeapi/..."},
	"cmd/...":      {"..."},
}

// importers restricts who may import a package.
var importers = map[string][]string{
	"localpg": {"test/...", "cmd/..."},
	// Imports of test files are not checked. The commands bench and crash are part of the program.
	"test/...": {"test/...", "cmd/..."},
	// Only tests may import these.
	"processes/carrier/carriertest":        {},
	"adapters/bluebubbles/bluebubblestest": {},
	"adapters/twilio/twiliotest":           {"cmd/..."}, // dev mode
}

// impure lists packages that domain and events may not import. Time, ids and the like are passed to them.
var impure = []string{
	"context", "crypto/rand", "database/sql", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec",
	"runtime", "sync", "sync/atomic", "syscall", "github.com/jackc/pgx/v5",
}

// timekeepers are packages that may read the machine's time. Every other package uses the package clock.
var timekeepers = []string{"clock", "cmd/...", "test/...", "localpg"}

// realTime lists further files that may read the machine's time, with what they measure. They measure durations; what
// they read is never stored, shown or compared with a time of the clock. A stopped or moved clock would break them.
var realTime = map[string]string{
	"adapters/poster/poster.go":       "how long a receiver takes to answer",
	"service/conn.go":                 "how long a connection has been silent",
	"service/outage.go":               "how long the database has been out of reach",
	"eventstore/committer.go":         "how long the database has been out of reach",
	"eventstore/feed/subscriber.go":   "how long a checkpoint has stood still",
	"eventstore/feed/tail.go":         "when the database was polled last",
	"eventstore/feed/listen.go":       "how long a connection has held",
	"httpapi/endpoint.go":             "how long a client of a download has read nothing",
	"httpapi/jwks.go":                 "the interval between two loads of the keys",
	"httpapi/observe.go":              "how long a request took",
	"httpapi/ratelimit.go":            "token buckets, which protect the machine",
	"processes/tasks/loop.go":         "leases, which detect workers that died",
	"processes/peers/peers.go":        "when refused calls may be tried again",
	"service/auth.go":                 "how long a credential is cached",
	"projections/readmodel/replay.go": "how long a replay takes",

	"adapters/bluebubbles/bluebubblestest/server.go": "a fake Mac, which has a clock of its own",
	"adapters/twilio/twiliotest/server.go":           "a fake SMS provider, which has a clock of its own",
}

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// name is the path of the package within the module.
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

// importsOf returns the entry of a package in allowedImports; false when there is none.
func importsOf(name string) ([]string, bool) {
	best, allowed := "", []string(nil)
	for pattern, list := range allowedImports {
		if fits(pattern, name) && len(pattern) > len(best) {
			best, allowed = pattern, list
		}
	}
	return allowed, best != ""
}

func TestPackagesImportOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		allowed, known := importsOf(p.name())
		if !known {
			t.Errorf("%s has no entry in allowedImports: add what it may import", p.name())
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
			for closed, permitted := range importers {
				if fits(closed, ours) && !fitsAny(permitted, p.name()) {
					t.Errorf("%s may not import %s: only %s may", p.name(), ours, strings.Join(permitted, ", "))
				}
			}
		}
	}
}

func TestDomainAndEventsAreFreeOfSideEffects(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !fits("domain/...", p.name()) && p.name() != "events" {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s may not import %s: pass in what it needs", p.name(), imported)
			}
		}
	}
}

func TestTimeIsReadFromTheClockOnly(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if fitsAny(timekeepers, p.name()) {
			continue
		}
		for _, file := range p.GoFiles {
			if realTime[p.name()+"/"+file] != "" {
				continue
			}
			for _, line := range callsOfTimeNow(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s/%s:%d reads the machine's time: use the clock, or add the file to realTime with a reason", p.name(), file, line)
			}
		}
	}
}

// callsOfTimeNow lists the lines that use time.Now, or time.Since and time.Until, which call it.
func callsOfTimeNow(t *testing.T, file string) []int {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the file was moved while the test runs
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
