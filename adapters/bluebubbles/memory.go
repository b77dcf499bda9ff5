package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// The highest receipt that was reported of a part. A lower one is not reported after it.
const (
	reportedNothing = iota
	reportedDelivered
	reportedRead
	reportedFailed
)

// newAttempt is an attempt to send a part.
type newAttempt struct {
	TempGUID string
	GUID     *string // not nil when the server is known to have accepted the part before
	Lost     int     // attempts before it that got lost
}

// recordAttemptSQL records an attempt before it is made. The temporary id stays the same, so the server refuses an
// attempt while it works on the one before.
const recordAttemptSQL = `
insert into bluebubbles.parts as p (message_id, part, last, line_id, temp_guid, begun_at) values ($1, $2, $3, $4, $5, now())
on conflict (message_id, part) do update set
    begun_at = case when p.guid is null then now() else p.begun_at end, line_id = case when p.guid is null then $4 else p.line_id end
returning temp_guid, guid, lost`

const recordForgottenSQL = `
insert into bluebubbles.parts (message_id, part, last, line_id, temp_guid, begun_at) values ($1, $2, $3, $4, $5, $6) on conflict do nothing`

func (a *Adapter) recordAttempt(ctx context.Context, lineID, messageID string, part, parts int) (newAttempt, error) {
	temp := "ledgerline-" + messageID + "-" + strconv.Itoa(part)
	rows, err := a.cfg.Pool.Query(ctx, recordAttemptSQL, messageID, part, part == parts-1, lineID, temp)
	if err != nil {
		return newAttempt{}, fmt.Errorf("bluebubbles: record attempt: %w", err)
	}
	made, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[newAttempt])
	if err != nil {
		return newAttempt{}, fmt.Errorf("bluebubbles: record attempt: %w", err)
	}
	return made, nil
}

const recordGUIDSQL = `update bluebubbles.parts set guid = $3 where message_id = $1 and part = $2 and guid is null`

// recordGUID stores the server's id of a part, which never changes afterwards.
func (a *Adapter) recordGUID(ctx context.Context, messageID string, part int, guid string) error {
	if _, err := a.cfg.Pool.Exec(ctx, recordGUIDSQL, messageID, part, guid); err != nil {
		return fmt.Errorf("bluebubbles: record id: %w", err)
	}
	return nil
}

const recordTempGUIDSQL = `update bluebubbles.parts p set guid = $3 where line_id = $1 and temp_guid = $2 and guid is null
	and not exists (select from bluebubbles.parts o where o.line_id = $1 and o.guid = $3)`

// recordTempGUID stores the server's id of the part with a temporary id.
func (a *Adapter) recordTempGUID(ctx context.Context, lineID, temp, guid string) error {
	if _, err := a.cfg.Pool.Exec(ctx, recordTempGUIDSQL, lineID, temp, guid); err != nil {
		return fmt.Errorf("bluebubbles: record id: %w", err)
	}
	return nil
}

// attempt is the latest attempt to send a part.
type attempt struct {
	Part       int
	LineID     string
	GUID       *string
	BegunMS    int64
	WindowOver bool // the AcceptWindow has passed: the server shows the part now, if it has accepted it
}

const attemptsSQL = `
select part, line_id, guid, (extract(epoch from begun_at) * 1000)::bigint, begun_at + make_interval(secs => $2) <= now()
from bluebubbles.parts where message_id = $1 order by part`

func (a *Adapter) attempts(ctx context.Context, messageID string) ([]attempt, error) {
	rows, err := a.cfg.Pool.Query(ctx, attemptsSQL, messageID, a.cfg.AcceptWindow.Seconds())
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: read attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[attempt])
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: read attempts: %w", err)
	}
	return list, nil
}

const (
	countLostSQL  = `update bluebubbles.parts set lost = lost + 1 where message_id = $1 and part = $2 and guid is null`
	knownGUIDsSQL = `select guid from bluebubbles.parts where line_id = $1 and guid = any($2)`
)

func (a *Adapter) countLost(ctx context.Context, messageID string, part int) error {
	if _, err := a.cfg.Pool.Exec(ctx, countLostSQL, messageID, part); err != nil {
		return fmt.Errorf("bluebubbles: count lost attempt: %w", err)
	}
	return nil
}

// knownGUIDs reports which of a server's ids belong to messages of ours.
func (a *Adapter) knownGUIDs(ctx context.Context, lineID string, guids []string) (map[string]bool, error) {
	rows, err := a.cfg.Pool.Query(ctx, knownGUIDsSQL, lineID, guids)
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: read known ids: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: read known ids: %w", err)
	}
	found := make(map[string]bool, len(list))
	for _, guid := range list {
		found[guid] = true
	}
	return found, nil
}

// sent is a part that a server has accepted.
type sent struct {
	MessageID string
	Part      int
	Last      bool
	Reported  int     // the highest receipt that was reported
	First     *string // the server's id of the first part, which is the carrier's id of the message
}

const sentSQL = `
select p.message_id, p.part, p.last, p.reported, (select guid from bluebubbles.parts f where f.message_id = p.message_id and f.part = 0)
from bluebubbles.parts p where p.line_id = $1 and p.guid = $2`

// sentPart finds the part with a server's id.
func (a *Adapter) sentPart(ctx context.Context, lineID, guid string) (s sent, found bool, err error) {
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

const reportedSQL = `update bluebubbles.parts set reported = greatest(reported, $3) where message_id = $1 and part = $2`

func (a *Adapter) recordReported(ctx context.Context, s *sent, level int) error {
	if _, err := a.cfg.Pool.Exec(ctx, reportedSQL, s.MessageID, s.Part, level); err != nil {
		return fmt.Errorf("bluebubbles: record receipt: %w", err)
	}
	return nil
}

const (
	// openLife is how long the adapter polls for the receipts of a message.
	openLife = `interval '48 hours'`
	// openSQL returns the parts that were polled longest ago, and records that they are polled now.
	openSQL = `
update bluebubbles.parts p set checked_at = now() from (
    select message_id, part from bluebubbles.parts
    where line_id = $1 and guid is not null and reported < 2 and begun_at > now() - ` + openLife + `
    order by checked_at nulls first limit $2 for update skip locked) o
where p.message_id = o.message_id and p.part = o.part returning p.guid`
	// startPollSQL starts a poll of a line's server, unless another one started within the interval. The first poll of
	// a server reads messages from now on.
	startPollSQL = `
insert into bluebubbles.polls as p (line_id, polled_at, since, seen)
select $1, now(), t, t from (select (extract(epoch from now()) * 1000)::bigint) x (t)
on conflict (line_id) do update set polled_at = now() where p.polled_at <= now() - make_interval(secs => $2)
returning since, seen`
	readSQL      = `update bluebubbles.polls set read_at = polled_at where line_id = $1`
	readAgainSQL = `update bluebubbles.polls set seen = least(seen, $1), since = least(since, $1), read_at = null`
	unreadSQL    = `select u.line_id from unnest($1::text[]) u (line_id) left join bluebubbles.polls p on p.line_id = u.line_id
		where p.read_at is null or p.read_at < $2 order by 1`
	seenSQL  = `update bluebubbles.polls set seen = greatest(seen, $2) where line_id = $1`
	pruneSQL = `delete from bluebubbles.parts where (message_id, part) in (
		select message_id, part from bluebubbles.parts where begun_at < now() - interval '30 days' limit 1000)`
)
