package main

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A signal that repeats the first within this time is the same wish: a terminal, make and a supervisor may each send
// theirs.
const sameWish = time.Second

// untilSignalled gives a context that ends with the first SIGINT, SIGTERM or SIGHUP. A second one, once the first has
// had time to work, ends the process at once.
func untilSignalled(con *console) (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(context.Background())
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup means that a closed terminal is no reason to end
		wanted = append(wanted, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, wanted...)
	go func() {
		<-signals
		first := time.Now()
		stop()
		for range signals {
			if time.Since(first) >= sameWish {
				con.say("stopped at once")
				os.Exit(exitForced)
			}
		}
	}()
	return ctx, stop
}

// withParent ends with ctx, and also when this process was started by `go run` and that is gone: a signal that is sent
// to `go run` alone ends it without a word to the program that it runs.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	parent := os.Getppid()
	if !isGo(parent) {
		return ctx, stop
	}
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					stop()
					return
				}
			}
		}
	}()
	return ctx, stop
}

// isGo tells whether a process is the go command. Where there is no /proc it is not known, and not assumed.
func isGo(pid int) bool {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.TrimSpace(string(name)) == "go"
}

// self is how this program is called from a shell.
func self() string {
	if isGo(os.Getppid()) {
		return "go run ./cmd/ledgerline"
	}
	return os.Args[0]
}
