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

// repeatWindow is how long further signals count as repetitions of the first one: a terminal, make and a supervisor may
// each send one.
const repeatWindow = time.Second

// untilSignalled returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. A second signal, after
// repeatWindow, ends the process at once with exitForced.
func untilSignalled(con *console) (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(context.Background())
	wanted := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // under nohup the process outlives its terminal
		wanted = append(wanted, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, wanted...)
	go func() {
		<-signals
		first := time.Now()
		stop()
		for range signals {
			if time.Since(first) >= repeatWindow {
				con.say("stopped at once")
				os.Exit(exitForced)
			}
		}
	}()
	return ctx, stop
}

// withParent returns a context that ends with ctx, and also when this process was started by `go run` and `go run` has
// ended: it does not forward a signal that is sent to it alone.
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

// isGo reports whether a process is the go command; false where there is no /proc.
func isGo(pid int) bool {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.TrimSpace(string(name)) == "go"
}

// self is the command with which a shell calls this program.
func self() string {
	if isGo(os.Getppid()) {
		return "go run ./cmd/ledgerline"
	}
	return os.Args[0]
}
