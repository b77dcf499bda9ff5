package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ledgerline/commands"
	"ledgerline/projections"
	"ledgerline/service"
)

// measureVisible appends at a steady pace with all projections running. It measures the time from the append's answer
// until a read returns the row.
func measureVisible(ctx context.Context, b *bench) error {
	const pace = 1000.0 // events/s
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	const eventsPerContact = 2 // contact.created, number.linked
	var n atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var failure error
	var wg sync.WaitGroup
	started := time.Now()
	end := started.Add(b.For + b.For/5)
	v := projections.Viewer{Workspace: s.wsp, Shard: s.Ledger.ShardOf(s.org)}
	for range 16 {
		wg.Go(func() {
			for {
				i := n.Add(1)
				due := started.Add(time.Duration(float64(i) / (pace / eventsPerContact) * float64(time.Second)))
				if due.After(end) {
					return
				}
				time.Sleep(time.Until(due))
				r, err := s.App.CreateContact(ctx, s.request(), commands.CreateContact{Phone: fmt.Sprintf("+1415%07d", 2000000+i)})
				answered := time.Now()
				found := false
				if err == nil {
					err = s.Store.WaitForPosition(ctx, r.Shard, r.Position, projections.Contacts)
				}
				if err == nil {
					_, found, err = s.Store.Contact(ctx, v, r.Ref)
				}
				took := time.Since(answered)
				if err == nil && !found {
					err = errors.New("a contact that was answered for cannot be read")
				}
				mu.Lock()
				failure = errors.Join(failure, err)
				if due.Sub(started) > b.For/5 {
					all = append(all, took)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if failure != nil {
		return failure
	}
	b.report(Figure{Measurement: "visible", What: "p50 from an append's answer to the row being read, 1,000 events/s", Value: percentile(all, 0.5), Unit: "ms", Goal: "under 5 ms"})
	b.report(Figure{Measurement: "visible", What: "p99", Value: percentile(all, 0.99), Unit: "ms", Goal: "under 25 ms"})
	return nil
}

// measureIdle watches a node that has nothing to do, its server included.
func measureIdle(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	time.Sleep(3 * time.Second) // until the work of the start is done and the notary has closed its block
	return b.idle(ctx, "idle", s.pool, "under 2 % with the server")
}

// cpu returns the processor time of a process and its ended children; 0 if the system does not report it.
func cpu(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const first, fourth = 11, 14 // utime, stime, cutime, cstime
	if len(fields) <= fourth {
		return 0
	}
	ticks := 0
	for _, field := range fields[first : fourth+1] {
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// serverCPU adds up the server's processes: the postmaster, its children and those that have ended.
func (b *bench) serverCPU() time.Duration {
	parent := strconv.Itoa(b.server.PID())
	total := cpu(b.server.PID())
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return total
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == parent {
			total += cpu(pid)
		}
	}
	return total
}
