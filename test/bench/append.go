package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/migrations"
	"ledgerline/service"
)

// The raw baseline of an append: the same row, numbered by the shard's head, in a transaction of its own, written with
// one statement in one round trip.
const rawAppendSQL = `with head as (update ledger_heads set position = position + 1 where shard = 0 returning position)
	insert into ledger_events (shard, position, id, stream, version, type, schema, organisation_id, workspace_id,
		occurred_at, actor_type, actor_id, request_id, correlation_id, data, tag)
	select 0, head.position, $1, $2, 1, 'team.created', 1, $3, $4, $5, 'system', '', 'bench', $6, $7, '\x00' from head`

func measureAppend(ctx context.Context, b *bench) error {
	dsn, err := b.database(ctx)
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		return err
	}
	pool, err := service.Connect(ctx, dsn, b.Callers+4, 0)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := eventstore.Open(ctx, eventstore.Config{Pool: pool, Keyring: b.ring, Clock: clock.System()})
	if err != nil {
		return err
	}
	defer l.Close()
	org, wsp := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	for _, callers := range []int{b.Callers, 1} {
		raw, err := during(ctx, b.For, callers, func(ctx context.Context) error { return rawAppend(ctx, pool, org, wsp) })
		if err != nil {
			return err
		}
		ours, err := during(ctx, b.For, callers, func(ctx context.Context) error {
			team := uuid.Must(uuid.NewV7())
			_, err := l.Append(ctx, eventstore.Append{
				Organisation: org, Workspace: wsp, Actor: events.Actor{Type: "system"}, RequestID: "bench", At: time.Now(),
				Streams: []eventstore.StreamEvents{{Stream: "team_" + team.String(), Events: []events.Event{&events.TeamCreated{TeamID: team, Name: "A team of the bench"}}}},
			})
			return err
		})
		if err != nil {
			return err
		}
		goal := "at least 4 times"
		if callers == 1 {
			goal = "at least half"
		}
		b.report(Figure{Measurement: "append", What: fmt.Sprintf("%d callers, against the same rows one transaction each", callers), Value: ours, Unit: "appends/s", Baseline: raw, Goal: goal})
	}
	return nil
}

func rawAppend(ctx context.Context, pool *pgxpool.Pool, org, wsp uuid.UUID) error {
	id := uuid.Must(uuid.NewV7())
	_, err := pool.Exec(ctx, rawAppendSQL, id, "team_"+id.String(), org, wsp, time.Now(), id, `{"team_id":"`+id.String()+`","name":"A team of the bench"}`)
	return err
}

// during calls f from a number of callers for a time, after a short warm-up, and returns the rate per second.
func during(ctx context.Context, d time.Duration, callers int, f func(context.Context) error) (float64, error) {
	var n atomic.Int64
	var failure atomic.Pointer[error]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(ctx); err != nil {
					failure.Store(&err)
					return
				}
				n.Add(1)
			}
		})
	}
	time.Sleep(d / 5)
	before, started := n.Load(), time.Now()
	time.Sleep(d)
	rate := float64(n.Load()-before) / time.Since(started).Seconds()
	close(stop)
	wg.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return rate, nil
}
