package engine

import (
	"context"
	"time"

	"ledgerline/domain/fault"
	"ledgerline/eventstore"
)

// CountQuota is a quota on how many of a thing exist at the same time. Its only bucket never expires.
func CountQuota(key string, add, limit int64) eventstore.Quota {
	forever := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	return eventstore.Quota{Key: key, Bucket: forever, From: forever, Add: add, Limit: limit}
}

// LimitPerMinute allows limit operations in any 60 seconds of the service's clock, across all nodes. operations
// names them in the message of the refusal rate_limited. Pass the command's error to RetryAfter.
func (u *Unit) LimitPerMinute(key string, limit int64, operations string) {
	full := fault.New(fault.RateLimited, "There are at most %d %s a minute in a workspace.", limit, operations)
	full.RetryAfter = time.Minute
	u.Quota(eventstore.Quota{Key: key, Bucket: u.Now.Truncate(time.Second), From: minuteBefore(u.Now), Add: 1, Limit: limit}, full)
}

// minuteBefore returns the first of the 60 whole seconds that a limit per minute counts at now.
func minuteBefore(now time.Time) time.Time {
	return now.Add(time.Second - time.Minute).Truncate(time.Second)
}

// RetryAfter returns a refusal of LimitPerMinute with its RetryAfter set to the time until the oldest counted operation
// expires. It returns other errors, and nil, unchanged.
func (e *Engine) RetryAfter(ctx context.Context, key string, err error) error {
	if !fault.Is(err, fault.RateLimited) {
		return err
	}
	now := e.Ledger.Now()
	oldest, found, readErr := e.Ledger.OldestQuotaBucket(ctx, key, minuteBefore(now))
	if readErr != nil {
		return Unreadable(readErr)
	}
	full := *fault.Of(err)
	full.RetryAfter = time.Second
	if found {
		full.RetryAfter = max(oldest.Add(time.Minute).Sub(now), time.Second)
	}
	return &full
}
