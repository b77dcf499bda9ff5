package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

// parker is the publisher of watermill's poison queue, which receives batches that failed because of their events. It
// applies the events one by one and parks those that fail.
type parker struct{ runner *Runner }

const parkSQL = `insert into feed_parked (name, shard, position, event_id, type, reason, parked_at)
	values ($1, $2, $3, $4, $5, $6, $7) on conflict (name, shard, position) do update set reason = excluded.reason`

// Publish implements message.Publisher.
func (p parker) Publish(_ string, messages ...*message.Message) error {
	for _, msg := range messages {
		c, known := p.runner.handlers[msg.Metadata.Get(middleware.PoisonedHandlerKey)]
		if !known {
			return fmt.Errorf("feed: a failed batch names the unknown handler %q", msg.Metadata.Get(middleware.PoisonedHandlerKey))
		}
		b, err := c.source.batchOf(msg)
		if err != nil {
			return err
		}
		if err := p.applyOneByOne(msg.Context(), c, b); err != nil {
			return err
		}
	}
	return nil
}

// Close implements message.Publisher.
func (p parker) Close() error { return nil }

// applyOneByOne applies the events of a batch one by one, each in a transaction that moves the checkpoint past it.
func (p parker) applyOneByOne(ctx context.Context, c handler, b *Batch) error {
	after := b.After
	for i := range b.Events {
		single := &Batch{Consumer: b.Consumer, Revision: b.Revision, Shard: b.Shard, After: after, Through: b.Events[i].Position, Events: b.Events[i : i+1], throughID: b.Events[i].ID}
		err := p.runner.applyOne(ctx, c, single)
		if err != nil && isUnprocessable(err) {
			err = p.park(ctx, c, single, err)
		}
		if err != nil {
			return err
		}
		after = single.Through
	}
	if after == b.Through {
		return nil
	}
	rest := &Batch{Consumer: b.Consumer, Revision: b.Revision, Shard: b.Shard, After: after, Through: b.Through, throughID: b.throughID}
	return p.runner.write(ctx, c, rest, func(*pgx.Batch) error { return nil })
}

// applyOne applies a batch of one event. A panic of the consumer becomes an UnprocessableError.
func (r *Runner) applyOne(ctx context.Context, c handler, b *Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &UnprocessableError{fmt.Errorf("panic: %v", v)}
		}
	}()
	if err := r.decode(ctx, b); err != nil {
		return err
	}
	return r.write(ctx, c, b, func(q *pgx.Batch) error { return addStatementsTo(ctx, c.Consumer, q, b.Revision, b.Events) })
}

// park records an event as parked and moves the checkpoint past it.
func (p parker) park(ctx context.Context, c handler, b *Batch, cause error) error {
	e := &b.Events[0]
	p.runner.log.Error("feed: event parked", "consumer", c.Name(), "shard", e.Shard, "position", e.Position, "type", e.Type, "error", cause)
	return p.runner.write(ctx, c, b, func(q *pgx.Batch) error {
		q.Queue(parkSQL, c.Name(), e.Shard, e.Position, e.ID, e.Type, reason(cause), p.runner.ledger.Now())
		return nil
	})
}

// reason returns the text of an error for operators. It is cut off at maxRunes, because an error of the database can
// quote a whole row.
func reason(err error) string {
	const maxRunes = 500
	s := []rune(err.Error())
	return string(s[:min(len(s), maxRunes)])
}

// ParkedEvent is an event that a consumer could not apply and skipped.
type ParkedEvent struct {
	Consumer string    `json:"consumer"`
	Shard    int       `json:"shard"`
	Position int64     `json:"position"`
	EventID  uuid.UUID `json:"event_id"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	ParkedAt time.Time `json:"parked_at"`
}

const (
	listParkedSQL   = `select name, shard, position, event_id, type, reason, parked_at from feed_parked order by parked_at, shard, position`
	deleteParkedSQL = `delete from feed_parked where name = $1 and shard = $2 and position = $3`
)

const countParkedSQL = `select f.name, (select count(*) from feed_parked p where p.name = f.name) from feed_consumers f`

// CountParkedEvents returns the number of parked events of every consumer that has run, by its name.
func CountParkedEvents(ctx context.Context, ledger *eventstore.Ledger) (map[string]int64, error) {
	rows, err := ledger.Pool().Query(ctx, countParkedSQL)
	if err != nil {
		return nil, fmt.Errorf("feed: count parked events: %w", err)
	}
	counts, name, count := map[string]int64{}, "", int64(0)
	_, err = pgx.ForEachRow(rows, []any{&name, &count}, func() error {
		counts[name] += count
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("feed: count parked events: %w", err)
	}
	return counts, nil
}

// ErrNotParked is returned when there is no such parked event.
var ErrNotParked = errors.New("feed: no such parked event")

// ListParkedEvents lists the parked events of all consumers, oldest first.
func ListParkedEvents(ctx context.Context, ledger *eventstore.Ledger) ([]ParkedEvent, error) {
	rows, err := ledger.Pool().Query(ctx, listParkedSQL)
	if err != nil {
		return nil, fmt.Errorf("feed: list parked events: %w", err)
	}
	parked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ParkedEvent])
	if err != nil {
		return nil, fmt.Errorf("feed: list parked events: %w", err)
	}
	return parked, nil
}

// SkipParkedEvent removes an event from the parked events without applying it: the consumer never applies it. It
// returns ErrNotParked when there is none.
func SkipParkedEvent(ctx context.Context, ledger *eventstore.Ledger, consumer string, shard int, position int64) error {
	tag, err := ledger.Pool().Exec(ctx, deleteParkedSQL, consumer, shard, position)
	if err != nil {
		return fmt.Errorf("feed: skip parked event: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNotParked
	}
	return nil
}

const activeRevisionSQL = `select revision from feed_consumers where name = $1`

// RetryParkedEvent applies a parked event now, although the consumer has already applied later events, and removes it
// from the parked events when that succeeds. It returns ErrNotParked when there is none.
func RetryParkedEvent(ctx context.Context, ledger *eventstore.Ledger, c Consumer, shard int, position int64) error {
	found, err := ledger.ReadRange(ctx, shard, position-1, position)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return ErrNotParked
	}
	if err := ledger.Decode(ctx, found); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, ledger.Pool(), func(tx pgx.Tx) error {
		var revision int
		if err := tx.QueryRow(ctx, activeRevisionSQL, c.Name()).Scan(&revision); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, deleteParkedSQL, c.Name(), shard, position)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotParked
		}
		var q pgx.Batch
		if err := addStatementsTo(ctx, c, &q, revision, found); err != nil {
			return err
		}
		return tx.SendBatch(ctx, &q).Close()
	})
	if err != nil {
		return fmt.Errorf("feed: retry parked event: %w", err)
	}
	return nil
}

// RetriedEvent is a parked event that was tried again.
type RetriedEvent struct {
	ParkedEvent
	Err error // nil: it was applied
}

// errEarlierParked is the result of an event that must not be applied before an earlier one.
var errEarlierParked = errors.New("feed: an earlier event of the same stream or contact is still parked")

// RetryParkedEvents applies the chosen parked events of a consumer now, in the order of their positions. An event waits
// while an earlier event of its stream or of its subject is still parked, so that each of them sees its events in their
// order.
func RetryParkedEvents(ctx context.Context, ledger *eventstore.Ledger, c Consumer, chosen func(*ParkedEvent) bool) ([]RetriedEvent, error) {
	parked, err := ListParkedEvents(ctx, ledger)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(parked, func(a, b ParkedEvent) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Position, b.Position))
	})
	waiting := map[string]bool{} // streams and subjects with an event that stays parked
	var results []RetriedEvent
	for i := range parked {
		p := &parked[i]
		if p.Consumer != c.Name() {
			continue
		}
		found, err := ledger.ReadRange(ctx, p.Shard, p.Position-1, p.Position)
		if err != nil {
			return results, err
		}
		var keys []string
		if len(found) > 0 {
			if keys = append(keys, found[0].Stream); found[0].Subject != "" {
				keys = append(keys, found[0].Subject)
			}
		}
		stays := !chosen(p)
		if !stays {
			result := RetriedEvent{ParkedEvent: *p}
			if slices.ContainsFunc(keys, func(k string) bool { return waiting[k] }) {
				result.Err = errEarlierParked
			} else {
				result.Err = RetryParkedEvent(ctx, ledger, c, p.Shard, p.Position)
			}
			results, stays = append(results, result), result.Err != nil
		}
		if stays {
			for _, k := range keys {
				waiting[k] = true
			}
		}
	}
	return results, nil
}
