// Command ledgerline is the whole service in one program: `dev` runs everything on this machine, `serve` runs one node
// of an installation, and the other commands are tools for its operators.
//
// Results go to stdout as JSON, for scripts; lists are tables when stdout is a terminal. Messages and logs go to
// stderr. The exit code is 0 for success, 1 for a failure, 2 for wrong arguments, and 130 after a second signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	_ "time/tzdata" // embeds the time zones that organisations choose, since not every machine has them

	"github.com/alecthomas/kong"

	"ledgerline/domain/fault"
)

// cli is the command line. A command is a struct whose fields are its arguments and flags, with a method Run.
type cli struct {
	LogLevel string           `help:"Lowest level that is logged to stderr: debug, info, warn or error. Default: info for dev and serve, warn for tools." enum:"debug,info,warn,error," default:"" placeholder:"LEVEL" env:"LEDGERLINE_LOG_LEVEL"`
	Output   string           `help:"How operator lists are printed: json, or table. Default: table on a terminal, else json." enum:"json,table," default:"" placeholder:"FORMAT"`
	Version  kong.VersionFlag `help:"Show the version."`

	Dev    devCommand    `cmd:"" group:"run" help:"Run everything on this machine, with a private PostgreSQL, demo data and a clock that can be moved."`
	DevEnv devEnvCommand `cmd:"" group:"run" help:"Print the variables with which a shell reaches a running dev: eval \"$(ledgerline dev-env)\"."`
	Serve  serveCommand  `cmd:"" group:"run" help:"Run a node with any of the roles write, read, project and process. Nodes share one database."`

	Migrate     migrateCommand     `cmd:"" group:"data" help:"Migrate the database to the newest schema. Nodes and tools refuse another one; dev migrates by itself."`
	Keys        keysCommand        `cmd:"" group:"data" help:"Create the file with the installation's secrets."`
	Replay      replayCommand      `cmd:"" group:"data" help:"Rebuild read models from the ledger, or build them as they were at a given time."`
	Projections projectionsCommand `cmd:"" group:"data" help:"Show how far the consumers of the ledger are, and handle events that they could not apply."`
	Recover     recoverCommand     `cmd:"" group:"data" help:"After a restored backup: keep messages from leaving until carriers were read and asked."`
	Audit       auditCommand       `cmd:"" group:"data" help:"Verify that the ledger was not changed after it was written."`
	Export      exportCommand      `cmd:"" group:"data" help:"Print the events of a workspace, oldest first, one JSON object per line."`

	Operator  operatorCommand  `cmd:"" group:"operate" help:"Manage organisations, workspaces, people, keys and lines."`
	Bench     benchCommand     `cmd:"" group:"measure" help:"Measure the service beside raw baselines, on a private PostgreSQL."`
	Crash     crashCommand     `cmd:"" group:"measure" help:"Kill the service and PostgreSQL repeatedly under load, and count what is lost."`
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

// gcPercent is the default of GOGC. It trades memory for processor time: few objects live longer than a request.
const gcPercent = 300

// run executes one command line and returns the exit code.
func run(args []string) int {
	con := &console{out: os.Stdout, err: os.Stderr}
	var c cli
	parser, err := kong.New(&c,
		kong.Name("ledgerline"),
		kong.Description("Business messaging on a ledger of events."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "run", Title: "Run"}, {Key: "data", Title: "Maintain data"}, {Key: "operate", Title: "Operate"}, {Key: "measure", Title: "Measure"}}),
		kong.Vars{"version": version()},
	)
	if err != nil {
		con.say("ledgerline: %v", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		con.say("ledgerline: %v", err)
		con.say("Try: %s --help", commandNamed(err))
		return exitUsage
	}
	con.level, con.operator = c.LogLevel, c.Operator.As
	con.tables = c.Output == "table" || c.Output == "" && isTerminal(os.Stdout)
	ctx, stop := untilSignalled(con)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(con); err != nil {
		return con.fail(err)
	}
	return exitOK
}

// commandNamed is the command, with its subcommands, that a wrong command line names: "ledgerline operator key".
func commandNamed(err error) string {
	wrong := (*kong.ParseError)(nil)
	if errors.As(err, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "ledgerline"
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitForced = 130
)

// errReported ends a command with exitFailed without a further message.
var errReported = errors.New("reported already")

// errUsage marks wrong arguments that the parser of the command line accepts.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// fail prints an error for people and returns the exit code.
func (c *console) fail(err error) int {
	if errors.Is(err, errReported) {
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
