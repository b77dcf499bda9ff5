package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore/feed"
	"ledgerline/projections"
	"ledgerline/service"
)

// projectionsCommand shows how far the consumers of the ledger are, and handles parked events.
type projectionsCommand struct {
	List  projectionsListCommand  `cmd:"" help:"List every consumer of the ledger with its revision, lag per shard and parked events."`
	Retry projectionsRetryCommand `cmd:"" help:"Apply the parked events of a consumer again, in their order, or one of them."`
	Skip  projectionsSkipCommand  `cmd:"" help:"Give up a parked event."`
}

type projectionsListCommand struct {
	installation
}

// consumersSQL counts for every consumer and shard the events that it still has to apply. The distance of its
// checkpoint to the head says less, because a checkpoint does not move while no event comes that the consumer handles.
const consumersSQL = `select f.name, f.revision, c.shard, c.position, (select count(*) from ledger_events e
		where e.shard = c.shard and e.position > c.position and exists
			(select from unnest($1::text[], $2::text[]) w (consumer, type) where w.consumer = f.name and w.type = e.type))
	from feed_consumers f
	join feed_checkpoints c on c.name = f.name and c.revision = f.revision
	order by f.name, c.shard`

type shardLag struct {
	Shard    int   `json:"shard"`
	Position int64 `json:"position"` // of the checkpoint
	Behind   int64 `json:"behind"`   // events that the consumer still has to apply
}

// handledTypes lists pairs of a consumer and a type of event that it handles.
func handledTypes() (consumers, types []string) {
	all := service.ProcessConsumers()
	for _, p := range projections.All() {
		all = append(all, p)
	}
	for _, c := range all {
		for _, name := range c.Types() {
			consumers, types = append(consumers, c.Name()), append(types, name)
		}
	}
	return consumers, types
}

type consumerState struct {
	Name     string             `json:"name"`
	Kind     string             `json:"kind"` // projection or process
	Revision int                `json:"revision"`
	Shards   []shardLag         `json:"shards"`
	Parked   []feed.ParkedEvent `json:"parked"`
}

// Run implements the command.
func (c *projectionsListCommand) Run(ctx context.Context, con *console) error {
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	parked, err := feed.ListParkedEvents(ctx, w.Ledger)
	if err != nil {
		return err
	}
	consumers, types := handledTypes()
	rows, err := w.Ledger.Pool().Query(ctx, consumersSQL, consumers, types)
	if err != nil {
		return fmt.Errorf("list consumers: %w", err)
	}
	list := []*consumerState{}
	var name string
	var revision int
	var at shardLag
	_, err = pgx.ForEachRow(rows, []any{&name, &revision, &at.Shard, &at.Position, &at.Behind}, func() error {
		if len(list) == 0 || list[len(list)-1].Name != name {
			list = append(list, &consumerState{Name: name, Kind: "process", Revision: revision, Parked: []feed.ParkedEvent{}})
			if projections.Named(name) != nil {
				list[len(list)-1].Kind = "projection"
			}
		}
		of := list[len(list)-1]
		of.Shards = append(of.Shards, at)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list consumers: %w", err)
	}
	for _, of := range list {
		for _, p := range parked {
			if p.Consumer == of.Name {
				of.Parked = append(of.Parked, p)
			}
		}
	}
	return con.print(list)
}

// parkedEvent holds the arguments that name a parked event.
type parkedEvent struct {
	Name     string `arg:"" help:"The consumer."`
	Shard    int    `arg:"" help:"The shard."`
	Position int64  `arg:"" help:"The event's position."`
}

func (p *parkedEvent) printResult(con *console, result string) error {
	return con.print(map[string]any{"name": p.Name, "shard": p.Shard, "position": p.Position, "result": result})
}

func (p *parkedEvent) explain(err error) error {
	if errors.Is(err, feed.ErrNotParked) {
		return fmt.Errorf("%s has no parked event at position %d of shard %d", p.Name, p.Position, p.Shard)
	}
	return err
}

type projectionsRetryCommand struct {
	installation
	Name     string `arg:"" help:"The consumer: a read model or a process."`
	Shard    int    `arg:"" optional:"" default:"-1" help:"The shard of the one event to retry."`
	Position int64  `arg:"" optional:"" help:"The position of the one event to retry."`
}

type retriedEvent struct {
	Name     string `json:"name"`
	Shard    int    `json:"shard"`
	Position int64  `json:"position"`
	Result   string `json:"result"` // taken, failed, or waits for an earlier event
	Reason   string `json:"reason,omitempty"`
}

// Run implements the command. It exits with 1 when an event could not be applied.
func (c *projectionsRetryCommand) Run(ctx context.Context, con *console) error {
	w, err := c.open(ctx, con, service.Roles{Read: true}) // a node with carriers, which some processes need
	if err != nil {
		return err
	}
	defer w.Close()
	consumer, err := w.ConsumerNamed(c.Name)
	if err != nil {
		return err
	}
	if consumer == nil {
		return usage("there is no read model and no process %q", c.Name)
	}
	results, err := feed.RetryParkedEvents(ctx, w.Ledger, consumer, func(p *feed.ParkedEvent) bool {
		return c.Shard < 0 || p.Shard == c.Shard && p.Position == c.Position
	})
	if err != nil {
		return err
	}
	if c.Shard >= 0 && len(results) == 0 {
		return (&parkedEvent{c.Name, c.Shard, c.Position}).explain(feed.ErrNotParked)
	}
	list, failed := []retriedEvent{}, false
	for _, r := range results {
		one := retriedEvent{Name: c.Name, Shard: r.Shard, Position: r.Position, Result: "taken"}
		if r.Err != nil {
			failed, one.Result, one.Reason = true, "failed", r.Err.Error()
		}
		list = append(list, one)
	}
	if err := con.print(list); err != nil {
		return err
	}
	if failed {
		return errReported
	}
	return nil
}

type projectionsSkipCommand struct {
	installation
	parkedEvent
}

// Run implements the command.
func (c *projectionsSkipCommand) Run(ctx context.Context, con *console) error {
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := feed.SkipParkedEvent(ctx, w.Ledger, c.Name, c.Shard, c.Position); err != nil {
		return c.explain(err)
	}
	return c.printResult(con, "skipped")
}
