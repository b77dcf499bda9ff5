package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// What was reported of a part; a higher one is never followed by a lower one.
const (
	toldNothing = iota
	toldDelivered
	toldRead
	toldFailed
)

// begun is a part that is being tried.
type begun struct {
	TempGUID string
	GUID     *string // set when it is known to have been taken
	Lost     int
}

// beginSQL notes a try before it is made. The temporary id stays the same, so that the server refuses a second try
// while it is still busy with the first.
const beginSQL = `
insert into bluebubbles.parts as p (message_id, part, last, line_id, temp_guid, begun_at) values ($1, $2, $3, $4, $5, now())
on conflict (message_id, part) do update set
    begun_at = case when p.guid is null then now() else p.begun_at end, line_id = case when p.guid is null then $4 else p.line_id end
returning temp_guid, guid, lost`

func (a *Adapter) begin(ctx context.Context, lineID, messageID string, part, parts int) (begun, error) {
	temp := "ledgerline-" + messageID + "-" + strconv.Itoa(part)
	rows, err := a.cfg.Pool.Query(ctx, beginSQL, messageID, part, part == parts-1, lineID, temp)
	if err != nil {
		return begun{}, fmt.Errorf("bluebubbles: begin: %w", err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[begun])
	if err != nil {
		return begun{}, fmt.Errorf("bluebubbles: begin: %w", err)
	}
	return b, nil
}

// A server's id belongs to one part for good.
const tookSQL = `update bluebubbles.parts set guid = $3 where message_id = $1 and part = $2 and guid is null`

func (a *Adapter) took(ctx context.Context, messageID string, part int, guid string) error {
	if _, err := a.cfg.Pool.Exec(ctx, tookSQL, messageID, part, guid); err != nil {
		return fmt.Errorf("bluebubbles: remember: %w", err)
	}
	return nil
}

const learnSQL = `update bluebubbles.parts p set guid = $3 where line_id = $1 and temp_guid = $2 and guid is null
	and not exists (select from bluebubbles.parts o where o.line_id = $1 and o.guid = $3)`

// learn takes the server's id of a part that is known by its temporary one.
func (a *Adapter) learn(ctx context.Context, lineID, temp, guid string) error {
	if _, err := a.cfg.Pool.Exec(ctx, learnSQL, lineID, temp, guid); err != nil {
		return fmt.Errorf("bluebubbles: learn: %w", err)
	}
	return nil
}

// tried is a part that was tried before.
type tried struct {
	Part    int
	LineID  string
	GUID    *string
	BegunMS int64
	Settled bool // it was tried so long ago that whatever was taken shows
}

const triedSQL = `
select part, line_id, guid, (extract(epoch from begun_at) * 1000)::bigint, begun_at + make_interval(secs => $2) <= now()
from bluebubbles.parts where message_id = $1 order by part`

func (a *Adapter) tried(ctx context.Context, messageID string) ([]tried, error) {
	rows, err := a.cfg.Pool.Query(ctx, triedSQL, messageID, a.cfg.Settle.Seconds())
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: tried: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[tried])
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: tried: %w", err)
	}
	return list, nil
}

const (
	lostSQL  = `update bluebubbles.parts set lost = lost + 1 where message_id = $1 and part = $2 and guid is null`
	knownSQL = `select guid from bluebubbles.parts where line_id = $1 and guid = any($2)`
)

func (a *Adapter) lost(ctx context.Context, messageID string, part int) error {
	if _, err := a.cfg.Pool.Exec(ctx, lostSQL, messageID, part); err != nil {
		return fmt.Errorf("bluebubbles: lost: %w", err)
	}
	return nil
}

// ours tells which of a server's ids belong to messages of ours already.
func (a *Adapter) ours(ctx context.Context, lineID string, guids []string) (map[string]bool, error) {
	rows, err := a.cfg.Pool.Query(ctx, knownSQL, lineID, guids)
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: ours: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: ours: %w", err)
	}
	found := make(map[string]bool, len(list))
	for _, guid := range list {
		found[guid] = true
	}
	return found, nil
}

// sent is a part that a server has.
type sent struct {
	MessageID string
	Part      int
	Last      bool
	Told      int
	First     *string // the server's id of the message's first part, which is the carrier's id of the whole
}

const sentSQL = `
select p.message_id, p.part, p.last, p.told, (select guid from bluebubbles.parts f where f.message_id = p.message_id and f.part = 0)
from bluebubbles.parts p where p.line_id = $1 and p.guid = $2`

func (a *Adapter) sentAs(ctx context.Context, lineID, guid string) (s sent, found bool, err error) {
	rows, err := a.cfg.Pool.Query(ctx, sentSQL, lineID, guid)
	if err == nil {
		s, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[sent])
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return sent{}, false, nil
	}
	if err != nil {
		return sent{}, false, fmt.Errorf("bluebubbles: find sent: %w", err)
	}
	return s, true, nil
}

const toldSQL = `update bluebubbles.parts set told = greatest(told, $3) where message_id = $1 and part = $2`

func (a *Adapter) told(ctx context.Context, s *sent, level int) error {
	if _, err := a.cfg.Pool.Exec(ctx, toldSQL, s.MessageID, s.Part, level); err != nil {
		return fmt.Errorf("bluebubbles: told: %w", err)
	}
	return nil
}

const (
	// openLife is for how long a message's receipts are asked for.
	openLife = `interval '48 hours'`
	// openSQL takes the parts whose server was not asked for the longest time, and notes that it is asked now.
	openSQL = `
update bluebubbles.parts p set checked_at = now() from (
    select message_id, part from bluebubbles.parts
    where line_id = $1 and guid is not null and told < 2 and begun_at > now() - ` + openLife + `
    order by checked_at nulls first limit $2 for update skip locked) o
where p.message_id = o.message_id and p.part = o.part returning p.guid`
	// takePollSQL takes a line's server for reading, unless somebody has just done so. A server that was never read is read
	// from now on.
	takePollSQL = `
insert into bluebubbles.polls as p (line_id, polled_at, since, seen)
select $1, now(), t, t from (select (extract(epoch from now()) * 1000)::bigint) x (t)
on conflict (line_id) do update set polled_at = now() where p.polled_at <= now() - make_interval(secs => $2)
returning since, seen`
	seenSQL  = `update bluebubbles.polls set seen = greatest(seen, $2) where line_id = $1`
	pruneSQL = `delete from bluebubbles.parts where (message_id, part) in (
		select message_id, part from bluebubbles.parts where begun_at < now() - interval '30 days' limit 1000)`
)
