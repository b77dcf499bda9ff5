package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ledgerline/clock"
	"ledgerline/eventstore"
	"ledgerline/localpg"
	"ledgerline/service"
)

// installation holds the flags that name the installation a tool works on: that of a dev by its data directory, any
// other by its database and keys. Tools work with and without running nodes.
type installation struct {
	Data        string `help:"Data directory of a dev (default: ${default})." default:"./.ledgerline" placeholder:"DIR"`
	DatabaseURL string `help:"URL of the database, if it is not the private one of a dev." env:"DATABASE_URL" placeholder:"URL"`
	KeysFile    string `help:"File with the installation's secrets. Default: keys.json in the data directory." env:"LEDGERLINE_KEYS_FILE" placeholder:"FILE"`
}

// workbench is an installation that a tool has opened.
type workbench struct {
	*service.Node
	con    *console
	closes []func()
}

// Close stops the node and the database that open started, in reverse order.
func (w *workbench) Close() {
	for i := len(w.closes) - 1; i >= 0; i-- {
		w.closes[i]()
	}
}

// open opens the installation with a node of these roles that serves no requests. Close the workbench afterwards.
func (i *installation) open(ctx context.Context, con *console, roles service.Roles) (*workbench, error) {
	w := &workbench{con: con}
	if err := w.open(ctx, i, roles); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *workbench) open(ctx context.Context, i *installation, roles service.Roles) error {
	log := w.con.logger(false, slog.LevelWarn)
	if err := i.waitForDev(ctx, w.con); err != nil {
		return err
	}
	keyring, err := i.keyring()
	if err != nil {
		return err
	}
	dsn, err := w.database(ctx, i)
	if err != nil {
		return err
	}
	at, err := i.clock(ctx)
	if err != nil {
		return err
	}
	if w.Node, err = service.Start(ctx, service.Config{
		DSN: dsn, Keyring: keyring, Clock: at, Roles: roles, MaxConns: 8, Version: version(), Logger: log,
	}); err != nil {
		return err
	}
	w.closes = append(w.closes, w.Node.Stop)
	return nil
}

// waitForDev waits while a dev starts, because the dev decides how a new installation is set up.
func (i *installation) waitForDev(ctx context.Context, con *console) error {
	for reported := false; ; reported = true {
		if !exists(i.Data) || exists(i.dir().devFile()) || !i.dir().devRuns() {
			return nil
		}
		if !reported {
			con.say("waiting for the dev in %s, which is starting", i.Data)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isDev reports whether the installation is that of a dev: its data directory names the database.
func (i *installation) isDev() bool {
	if i.DatabaseURL == "" {
		return true
	}
	named, err := os.ReadFile(i.dir().database())
	return err == nil && strings.TrimSpace(string(named)) == i.DatabaseURL
}

func (i *installation) dir() dataDir { return dataDir(filepath.Clean(i.Data)) }

// keysFile is the file with the installation's secrets.
func (i *installation) keysFile() string {
	if i.KeysFile == "" {
		return i.dir().keys()
	}
	return i.KeysFile
}

func (i *installation) keyring() (*eventstore.Keyring, error) {
	path := i.keysFile()
	keyring, err := eventstore.OpenKeyring(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keyring, err
	}
	if i.KeysFile != "" || i.DatabaseURL != "" {
		return nil, fmt.Errorf("the installation's keys are not in %s: name their file with --keys-file", path)
	}
	return nil, fmt.Errorf("%s is not a data directory: run `ledgerline dev` there first, name another one with --data DIR, or a database with --database-url and --keys-file", i.Data)
}

// database returns the URL of the database. It starts the private PostgreSQL unless it runs already.
func (w *workbench) database(ctx context.Context, i *installation) (dsn string, err error) {
	if i.DatabaseURL != "" {
		return i.DatabaseURL, nil
	}
	dir := i.dir()
	if named, err := os.ReadFile(dir.database()); err == nil {
		return strings.TrimSpace(string(named)), nil
	}
	// The tool that started the server waits for this lock before it stops the server: other tools may use it.
	users, err := flock(dir.file("tools.lock"), syscall.LOCK_SH)
	if err != nil {
		return "", err
	}
	w.closes = append(w.closes, func() { _ = users.Close() })
	server, err := localpg.Start(ctx, localpg.Config{DataDir: dir.postgres(), Reuse: true, Progress: func(line string) { w.con.say("%s", line) }})
	if err != nil {
		return "", err
	}
	if !server.Adopted() {
		w.closes = append(w.closes, func() { w.stopServer(server, users) })
	}
	return server.DSN(databaseName), server.EnsureDatabase(ctx, databaseName)
}

// stopServer stops the private PostgreSQL when no other tool uses it any more.
func (w *workbench) stopServer(server *localpg.Server, users *os.File) {
	if err := syscall.Flock(int(users.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		w.con.say("waiting for the other tools that use this PostgreSQL")
		_ = syscall.Flock(int(users.Fd()), syscall.LOCK_EX) // after a failure they lose their database
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		w.con.say("%v", err)
	}
}

// clock is the clock of the installation. That of a running dev may be stopped or moved.
func (i *installation) clock(ctx context.Context) (clock.Clock, error) {
	if !exists(i.Data) || !i.dir().devRuns() {
		return clock.System(), nil
	}
	now, err := devNow(ctx, i.dir())
	if err != nil {
		return nil, err
	}
	return clock.Frozen(now), nil
}
