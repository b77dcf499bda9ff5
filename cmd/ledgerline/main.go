// Command ledgerline is the whole service in one program: `dev` runs everything on this machine, `serve` runs a node
// beside others, and the rest are the tools of who operates it.
//
// Results go to stdout as short JSON, so that scripts can use them; messages and logs go to stderr. It exits with 0
// when all is well, with 1 when something is wrong, and with 2 when it was called wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	_ "time/tzdata" // organisations name their time zones, and not every machine knows them

	"github.com/alecthomas/kong"

	"ledgerline/domain/fault"
)

// cli is everything that can be typed. A command is a struct whose fields are its flags and whose Run carries it out.
type cli struct {
	LogLevel string           `help:"What is logged to stderr: debug, info, warn or error. Default: info for dev and serve, warn for tools." enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" env:"LEDGERLINE_LOG_LEVEL"`
	Version  kong.VersionFlag `help:"Show the version."`

	Dev    devCommand    `cmd:"" group:"run" help:"Run everything on this machine, with a PostgreSQL of its own, demo data and a clock that can be moved."`
	DevEnv devEnvCommand `cmd:"" group:"run" help:"Print what a shell needs to talk to a running dev: eval \"$(ledgerline dev-env)\"."`
	Serve  serveCommand  `cmd:"" group:"run" help:"Run a node: any of write, read, project and process, beside others on the same database."`

	Migrate     migrateCommand     `cmd:"" group:"data" help:"Bring the database to the newest schema. Every node does so as well when it starts."`
	Keys        keysCommand        `cmd:"" group:"data" help:"The file with the installation's secrets."`
	Replay      replayCommand      `cmd:"" group:"data" help:"Build read models anew from the ledger, or as they were at a time."`
	Projections projectionsCommand `cmd:"" group:"data" help:"How far the read models are, and the events that they could not take."`
	Audit       auditCommand       `cmd:"" group:"data" help:"Prove that the ledger is what was written."`
	Export      exportCommand      `cmd:"" group:"data" help:"Print the events of a workspace, oldest first, one JSON object a line."`

	Operator  operatorCommand  `cmd:"" group:"operate" help:"Organisations, workspaces, people, keys and lines."`
	Bench     benchCommand     `cmd:"" group:"measure" help:"Measure the service beside raw baselines, on a PostgreSQL of its own."`
	Crash     crashCommand     `cmd:"" group:"measure" help:"Kill the service and PostgreSQL again and again under load, and count what is lost."`
	CrashNode crashNodeCommand `cmd:"" hidden:""`

	OpenAPI openAPICommand `cmd:"" name:"openapi" group:"operate" help:"Print the OpenAPI document of the HTTP interface."`
	Build   versionCommand `cmd:"" name:"version" group:"operate" help:"Print the version, the commit that was built and the version of Go."`
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:]))
}

// gcPercent trades memory for processor time: what lives long is small, and nearly all that a request makes is short-lived.
const gcPercent = 300

// run carries out one command line and gives the exit code.
func run(args []string) int {
	con := &console{out: os.Stdout, err: os.Stderr}
	var c cli
	parser, err := kong.New(&c,
		kong.Name("ledgerline"),
		kong.Description("Business messaging on a ledger of events."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "run", Title: "Run"}, {Key: "data", Title: "Look after the data"}, {Key: "operate", Title: "Operate"}, {Key: "measure", Title: "Measure"}}),
		kong.Vars{"version": version()},
	)
	if err != nil {
		con.say("ledgerline: %v", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		con.say("ledgerline: %v", err)
		con.say("Try: ledgerline --help")
		return exitUsage
	}
	con.level = c.LogLevel
	ctx, stop := untilSignalled(con)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(con); err != nil {
		return con.fail(err)
	}
	return exitOK
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitForced = 130
)

// errTold ends a command with exitFailed without a further message.
var errTold = errors.New("told already")

// errUsage wraps what the flags alone could not refuse.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// fail tells an error in the words that help its reader, and gives the exit code.
func (c *console) fail(err error) int {
	if errors.Is(err, errTold) {
		return exitFailed
	}
	if refused := fault.Of(err); refused != nil {
		c.say("ledgerline: %s (%s)", refused.Message, refused.Code)
		for _, issue := range refused.Issues {
			c.say("  %s: %s", issue.Path, issue.Message)
		}
		if refused.Cause != nil {
			c.say("  %v", refused.Cause)
		}
		return exitFailed
	}
	c.say("ledgerline: %v", err)
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}
