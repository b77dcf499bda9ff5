package commands

import (
	"context"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
)

// quota adds to a counter with a limit; full is the refusal when there is no room.
func (u *unit) quota(q eventstore.Quota, full error) {
	u.quotas = append(u.quotas, q)
	if u.full == nil {
		u.full = map[string]error{}
	}
	u.full[q.Key] = full
}

// standing is a counter of what there is, as opposed to what happened within a time: its only bucket never grows old.
func standing(key string, add, limit int64) eventstore.Quota {
	forever := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	return eventstore.Quota{Key: key, Bucket: forever, From: forever, Add: add, Limit: limit}
}

// perMinute allows so many of a thing within any minute of the service's clock, across all nodes. Whoever asks for it
// tells when there is room again with whenFree.
func (u *unit) perMinute(key string, limit int64, what string) {
	full := fault.New(fault.RateLimited, "There are at most %d %s a minute in a workspace.", limit, what)
	full.RetryAfter = time.Minute
	u.quota(eventstore.Quota{Key: key, Bucket: u.now.Truncate(time.Second), From: minuteBefore(u.now), Add: 1, Limit: limit}, full)
}

// minuteBefore is the first of the seconds that count for a minute.
func minuteBefore(now time.Time) time.Time {
	return now.Add(time.Second - time.Minute).Truncate(time.Second)
}

// whenFree tells in a refusal of perMinute after what time the oldest of what was counted counts no more. Other errors,
// and none, stay as they are.
func (a *App) whenFree(ctx context.Context, key string, err error) error {
	if !fault.Is(err, fault.RateLimited) {
		return err
	}
	now := a.ledger.Now()
	oldest, found, readErr := a.ledger.OldestQuota(ctx, key, minuteBefore(now))
	if readErr != nil {
		return unreadable(readErr)
	}
	full := *fault.Of(err)
	full.RetryAfter = time.Second
	if found {
		full.RetryAfter = max(oldest.Add(time.Minute).Sub(now), time.Second)
	}
	return &full
}
