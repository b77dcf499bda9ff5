package engine

import (
	"context"
	"fmt"
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
	u.LimitIn(key, time.Minute, limit, fmt.Sprintf("There are at most %d %s a minute in a workspace.", limit, operations))
}

// LimitIn allows limit operations in any window of the service's clock, across all nodes. message is that of the
// refusal rate_limited. Pass the command's error to RetryAfterIn.
func (u *Unit) LimitIn(key string, window time.Duration, limit int64, message string) {
	full := fault.New(fault.RateLimited, "%s", message)
	full.RetryAfter = window
	u.Quota(eventstore.Quota{Key: key, Bucket: LimitBucket(u.Now), From: windowStart(u.Now, window), Add: 1, Limit: limit}, full)
}

// LimitBucket returns the bucket in which LimitIn counts an operation.
func LimitBucket(at time.Time) time.Time { return at.Truncate(time.Second) }

// windowStart returns the first of the whole seconds that a limit counts at now.
func windowStart(now time.Time, window time.Duration) time.Time {
	return now.Add(time.Second - window).Truncate(time.Second)
}

// RetryAfter is RetryAfterIn for a refusal of LimitPerMinute.
func (e *Engine) RetryAfter(ctx context.Context, key string, err error) error {
	return e.RetryAfterIn(ctx, key, time.Minute, err)
}

// RetryAfterIn returns a refusal of LimitIn for this window with its RetryAfter set to the time until the oldest
// counted operation expires. It returns other errors, and nil, unchanged.
func (e *Engine) RetryAfterIn(ctx context.Context, key string, window time.Duration, err error) error {
	if !fault.Is(err, fault.RateLimited) || fault.Of(err).RetryAfter != window {
		return err
	}
	now := e.Ledger.Now()
	oldest, found, readErr := e.Ledger.OldestQuotaBucket(ctx, key, windowStart(now, window))
	if readErr != nil {
		return Unreadable(readErr)
	}
	full := *fault.Of(err)
	full.RetryAfter = time.Second
	if found {
		full.RetryAfter = max(oldest.Add(window).Sub(now), time.Second)
	}
	return &full
}
