package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ledgerline/events"
	"ledgerline/processes/carrier"
)

// maxSends is how many calls of Send one commit accepts.
const maxSends = 256

// commitTimeout bounds a commit. After it, the result is unknown.
const commitTimeout = 30 * time.Second

// acceptSQL accepts messages, or refuses them for now as often as their scripts say. A message that is sent again on
// the same channel is counted, and its script goes on unchanged. A row without calls was made by a lookup. An attempt
// that a lookup has given up is not accepted, and not returned.
const acceptSQL = `
insert into simulator.messages as m (message_id, channel, carrier_id, script, calls, refuses, sends, accepted_at, due_at, sealed, given_up)
select id, channel, carrier, script, 1, greatest(refuses - 1, 0), case when refuses > 0 then 0 else 1 end, at, due, sealed, nullif(attempt, 0) - 1
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::timestamptz[], $7::timestamptz[], $8::bytea[], $9::int[])
     as t(id, channel, carrier, script, refuses, at, due, sealed, attempt)
on conflict (message_id, channel) do update set
    calls = m.calls + 1,
    carrier_id = case when m.calls = 0 then excluded.carrier_id else m.carrier_id end,
    script = case when m.calls = 0 then excluded.script else m.script end,
    sealed = case when m.calls = 0 then excluded.sealed else m.sealed end,
    refuses = case when m.calls = 0 then excluded.refuses else greatest(m.refuses - 1, 0) end,
    sends = m.sends + case when m.calls = 0 then excluded.sends when m.refuses > 0 then 0 else 1 end,
    accepted_at = case when m.sends = 0 then excluded.accepted_at else m.accepted_at end,
    due_at = case when m.sends = 0 then excluded.due_at else m.due_at end
where coalesce(excluded.given_up, m.given_up, 0) >= coalesce(m.given_up, 0)
returning message_id, channel, carrier_id, sends > 0`

var (
	errClosed  = errors.New("simulator: closed")
	errGivenUp = errors.New("simulator: a lookup has given this attempt up")
)

// payload is the part of a message that replies need. It is stored encrypted.
type payload struct {
	Line    string         `json:"line"`
	Contact string         `json:"contact"`
	Body    string         `json:"body"`
	Media   []events.Media `json:"media,omitempty"`
	Channel string         `json:"channel"`
}

// messageKey identifies a message on one channel. Each of them has its own script.
type messageKey struct{ messageID, channel string }

// call is a call of Send that waits for its commit.
type call struct {
	messageKey
	attempt int
	script  script
	at      time.Time
	sealed  []byte
	answer  chan answer // buffered
}

type answer struct {
	accepted carrier.Accepted
	err      error
}

// Send implements carrier.Carrier. It rejects numbers that are not on chat with not_on_chat, and numbers that end in 88
// by SMS too, with sms_undeliverable.
func (s *Simulator) Send(ctx context.Context, out carrier.Outbound) (carrier.Accepted, error) {
	c := &call{messageKey: messageKey{out.MessageID, out.Channel}, attempt: out.Attempt, script: scriptOf(out), at: s.cfg.Clock.Now(), answer: make(chan answer, 1)}
	if c.script.rejects != "" {
		return carrier.Accepted{}, &carrier.Rejected{Code: c.script.rejects}
	}
	if c.script.repliesFrom(0) {
		var err error
		if c.sealed, err = s.seal(out); err != nil {
			return carrier.Accepted{}, err
		}
	}
	select {
	case s.queue <- c:
	case <-ctx.Done():
		return carrier.Accepted{}, fmt.Errorf("simulator: send: %w", ctx.Err())
	case <-s.closed:
		return carrier.Accepted{}, errClosed
	}
	// The message is accepted even if ctx ends now, so wait for the answer.
	a := <-c.answer
	return a.accepted, a.err
}

// seal encrypts the payload of a message.
func (s *Simulator) seal(out carrier.Outbound) ([]byte, error) {
	plain, err := json.Marshal(payload{Line: out.From, Contact: out.To, Body: out.Body, Media: out.Media, Channel: out.Channel})
	if err != nil {
		return nil, fmt.Errorf("simulator: seal: %w", err)
	}
	sealed, err := s.cfg.AEAD.Encrypt(plain, []byte("simulator "+out.MessageID))
	if err != nil {
		return nil, fmt.Errorf("simulator: seal: %w", err)
	}
	return sealed, nil
}

// open decrypts the payload of a message.
func (s *Simulator) open(messageID string, sealed []byte) (payload, error) {
	var p payload
	plain, err := s.cfg.AEAD.Decrypt(sealed, []byte("simulator "+messageID))
	if err == nil {
		err = json.Unmarshal(plain, &p)
	}
	if err != nil {
		return p, fmt.Errorf("simulator: open: %w", err)
	}
	return p, nil
}

// commit accepts waiting calls in batches until ctx ends. A batch is what has arrived while the one before was
// committed.
func (s *Simulator) commit(ctx context.Context) {
	var later []*call // calls whose message is in the batch already
	for {
		waiting := later
		later = nil
		if len(waiting) == 0 {
			select {
			case c := <-s.queue:
				waiting = append(waiting, c)
			case <-ctx.Done():
				return
			}
		}
		waiting = s.drain(waiting)
		batch := map[messageKey]*call{}
		for _, c := range waiting {
			if batch[c.messageKey] == nil {
				batch[c.messageKey] = c
			} else {
				later = append(later, c)
			}
		}
		s.accept(context.WithoutCancel(ctx), batch)
	}
}

// drain adds the calls that are in the queue to waiting, up to maxSends in all.
func (s *Simulator) drain(waiting []*call) []*call {
	for len(waiting) < maxSends {
		select {
		case c := <-s.queue:
			waiting = append(waiting, c)
		default:
			return waiting
		}
	}
	return waiting
}

// accept commits a batch and answers its calls.
func (s *Simulator) accept(ctx context.Context, batch map[messageKey]*call) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	calls := make([]*call, 0, len(batch))
	for _, c := range batch {
		calls = append(calls, c)
	}
	// The rows are locked in the order of the primary key, so that two simulators cannot deadlock.
	slices.SortFunc(calls, func(a, b *call) int {
		return cmp.Or(strings.Compare(a.messageID, b.messageID), strings.Compare(a.channel, b.channel))
	})
	var (
		ids, channels, carriers, names []string
		refuses, attempts              []int
		ats                            []time.Time
		dues                           []*time.Time
		sealed                         [][]byte
	)
	for _, c := range calls {
		ids, channels, carriers = append(ids, c.messageID), append(channels, c.channel), append(carriers, "sim_"+uuid.Must(uuid.NewV7()).String())
		names, refuses = append(names, c.script.name), append(refuses, c.script.refuses)
		attempts = append(attempts, c.attempt)
		ats, dues = append(ats, c.at), append(dues, c.script.next(0, c.at))
		sealed = append(sealed, c.sealed)
	}
	answers := make(map[messageKey]answer, len(calls))
	rows, err := s.cfg.Pool.Query(ctx, acceptSQL, ids, channels, carriers, names, refuses, ats, dues, sealed, attempts)
	if err == nil {
		var of messageKey
		var carrierID string
		var accepted bool
		_, err = pgx.ForEachRow(rows, []any{&of.messageID, &of.channel, &carrierID, &accepted}, func() error {
			if accepted {
				answers[of] = answer{accepted: carrier.Accepted{CarrierID: carrierID}}
			} else {
				answers[of] = answer{err: carrier.ErrTransient}
			}
			return nil
		})
	}
	for _, c := range calls {
		switch {
		case err == nil:
			a, returned := answers[c.messageKey]
			if !returned {
				a.err = errGivenUp
			}
			c.answer <- a
		case pgconn.SafeToRetry(err): // nothing was sent to the database
			c.answer <- answer{err: fmt.Errorf("%w: simulator: %w", carrier.ErrTransient, err)}
		default:
			c.answer <- answer{err: fmt.Errorf("simulator: send: %w", err)}
		}
	}
	s.notify()
}

func (s *Simulator) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
