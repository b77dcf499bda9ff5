package twilio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/processes/carrier"
)

// recordAttemptSQL records an attempt before it is made.
const recordAttemptSQL = `
insert into twilio.messages as m (message_id, connection_id, first_at, begun_at) values ($1, $2, now(), now())
on conflict (message_id) do update set begun_at = case when m.sid is null then now() else m.begun_at end
returning coalesce(sid, ''), begun_at <> first_at`

// recordAttempt returns the sid of a message that is known to be accepted already, else "", and whether the message was
// attempted before.
func (a *Adapter) recordAttempt(ctx context.Context, out *carrier.Outbound) (sid string, again bool, err error) {
	if err := a.cfg.Pool.QueryRow(ctx, recordAttemptSQL, out.MessageID, out.ConnectionID).Scan(&sid, &again); err != nil {
		return "", false, fmt.Errorf("twilio: record attempt: %w", err)
	}
	return sid, again, nil
}

const recordSIDSQL = `update twilio.messages set sid = $2 where message_id = $1 and sid is null`

// recordSID stores the provider's id of a message, which never changes afterwards.
func (a *Adapter) recordSID(ctx context.Context, out *carrier.Outbound, sid string) error {
	if _, err := a.cfg.Pool.Exec(ctx, recordSIDSQL, out.MessageID, sid); err != nil {
		return fmt.Errorf("twilio: record id: %w", err)
	}
	return nil
}

// attempt is what is remembered of a message.
type attempt struct {
	SID        *string
	FirstAt    time.Time
	WindowOver bool // the AcceptWindow of the last attempt has passed
}

const attemptSQL = `select sid, first_at, begun_at + make_interval(secs => $2) <= now() from twilio.messages where message_id = $1`

// attempt returns what is remembered of a message; false when it was never attempted.
func (a *Adapter) attempt(ctx context.Context, messageID string) (t attempt, found bool, err error) {
	err = a.cfg.Pool.QueryRow(ctx, attemptSQL, messageID, a.cfg.AcceptWindow.Seconds()).Scan(&t.SID, &t.FirstAt, &t.WindowOver)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, false, nil
	}
	if err != nil {
		return t, false, fmt.Errorf("twilio: read attempt: %w", err)
	}
	return t, true, nil
}

const knownSIDsSQL = `select sid from twilio.messages where connection_id = $1 and sid = any($2)`

// knownSIDs reports which of the provider's ids belong to messages of ours.
func (a *Adapter) knownSIDs(ctx context.Context, connectionID string, sids []string) (map[string]bool, error) {
	rows, err := a.cfg.Pool.Query(ctx, knownSIDsSQL, connectionID, sids)
	if err != nil {
		return nil, fmt.Errorf("twilio: read known ids: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("twilio: read known ids: %w", err)
	}
	known := make(map[string]bool, len(list))
	for _, sid := range list {
		known[sid] = true
	}
	return known, nil
}

const messageOfSQL = `select message_id from twilio.messages where connection_id = $1 and sid = $2`

// messageOf finds our message with a provider's id; "" when there is none.
func (a *Adapter) messageOf(ctx context.Context, connectionID, sid string) (messageID string, err error) {
	err = a.cfg.Pool.QueryRow(ctx, messageOfSQL, connectionID, sid).Scan(&messageID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("twilio: find message: %w", err)
	}
	return messageID, nil
}

const keepSQL = `insert into twilio.callbacks (connection_id, sid, status, error_code) values ($1, $2, $3, $4) on conflict do nothing`

// keep stores a callback that cannot be recorded yet.
func (a *Adapter) keep(ctx context.Context, c *callback) error {
	if _, err := a.cfg.Pool.Exec(ctx, keepSQL, c.ConnectionID, c.SID, c.Status, c.ErrorCode); err != nil {
		return fmt.Errorf("twilio: keep callback: %w", err)
	}
	return nil
}

const (
	// dueSQL returns kept callbacks, and has them looked at again after a pause that grows with their age.
	dueSQL = `
update twilio.callbacks c set check_at = now() + greatest(interval '500 milliseconds', (now() - c.received_at) / 2)
from (select connection_id, sid, status from twilio.callbacks where check_at <= now()
    order by check_at limit 100 for update skip locked) d
where c.connection_id = d.connection_id and c.sid = d.sid and c.status = d.status
returning c.connection_id, c.sid, c.status, c.error_code`
	dropSQL      = `delete from twilio.callbacks where connection_id = $1 and sid = $2 and status = $3`
	pruneKeptSQL = `delete from twilio.callbacks where received_at < now() - interval '24 hours'`
	pruneSQL     = `delete from twilio.messages where message_id in (
		select message_id from twilio.messages where begun_at < now() - interval '30 days' limit 1000)`
)
