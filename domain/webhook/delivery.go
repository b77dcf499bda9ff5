package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.jetify.com/typeid/v2"
)

// delays are the times between one attempt and the next (rule WHK-11). The first attempt is made at once.
var delays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// MaxAttempts is how often a delivery is attempted before it fails (rule WHK-11).
	MaxAttempts = 10
	// Timeout is how long a receiver has to answer, in real time (rule WHK-10).
	Timeout = 15 * time.Second
	// MaxInFlight is how many deliveries to one endpoint are in flight at once, at most (rule WHK-13).
	MaxInFlight = 5
	// MaxPausedWait is how long a delivery waits for a paused endpoint before it fails (rule WHK-4).
	MaxPausedWait = 72 * time.Hour

	jitter = 0.2
)

// The errors of deliveries and attempts that got no answer from the receiver.
const (
	ErrorDisabled    = "endpoint_disabled"
	ErrorPaused      = "endpoint_paused"
	ErrorErased      = "erased"
	ErrorInterrupted = "interrupted: the service stopped during the attempt, its outcome is unknown"
)

// RetryDelay returns how long after attempt number (from 1) the next one comes (rule WHK-11); false if that was the
// last attempt. random lies in [0, 1) and spreads the delay by 20 percent to either side. retryAfter is what the
// receiver asked for, 0 for nothing; it makes the delay longer, at most twice as long as planned.
func RetryDelay(number int, random float64, retryAfter time.Duration) (time.Duration, bool) {
	if number < 1 || number > len(delays) {
		return 0, false
	}
	planned := delays[number-1]
	delay := time.Duration(float64(planned) * (1 - jitter + 2*jitter*random))
	return max(delay, min(retryAfter, 2*planned)), true
}

// FailureWindow counts how an endpoint has failed since its last success, or since it was enabled (rule WHK-12). The
// zero value is an endpoint without failures.
type FailureWindow struct {
	Since      time.Time // time of the first failed attempt
	Attempts   int       // failed attempts
	Events     int       // different events that failed: 0, 1, or 2 for more
	FirstEvent uuid.UUID
}

// What disables an endpoint (rule WHK-12): this long after the first failure, with at least so many failed attempts and
// failed events.
const (
	windowLength   = 120 * time.Hour
	windowAttempts = 10
	windowEvents   = 2
)

// AfterFailure returns the window after a failed attempt to deliver an event.
func (w FailureWindow) AfterFailure(at time.Time, event uuid.UUID) FailureWindow {
	switch {
	case w.Attempts == 0:
		w.Since, w.FirstEvent, w.Events = at, event, 1
	case event != w.FirstEvent:
		w.Events = windowEvents
	}
	w.Attempts++
	return w
}

// DisableAt returns when the endpoint is disabled if nothing succeeds until then; false while too few attempts have
// failed.
func (w FailureWindow) DisableAt() (time.Time, bool) {
	return w.Since.Add(windowLength), w.Attempts >= windowAttempts && w.Events >= windowEvents
}

// MustDisable reports whether the endpoint is to be disabled now.
func (w FailureWindow) MustDisable(now time.Time) bool {
	end, enough := w.DisableAt()
	return enough && !now.Before(end)
}

// Sign returns the header webhook-signature of Standard Webhooks 1.0.0: one v1 signature per secret (rules WHK-6 and
// WHK-7).
func Sign(id string, at time.Time, body []byte, secrets ...string) (string, error) {
	var header strings.Builder
	prefix := id + "." + strconv.FormatInt(at.Unix(), 10) + "."
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil {
			return "", fmt.Errorf("webhook: secret %d of the endpoint is not base64", i+1)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(prefix))
		mac.Write(body)
		if i > 0 {
			header.WriteByte(' ')
		}
		header.WriteString("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return header.String(), nil
}

// DeliveryID returns the id of the delivery of an event to an endpoint. Every node derives the same id; it has the
// time of the event.
func DeliveryID(event uuid.UUID, endpointID string) uuid.UUID {
	return derived(event, "delivery", endpointID)
}

// EventID returns the webhook id of what an event of the ledger leads to: the event's own id for the first, and one
// derived from it for every further thing (further > 0) that is sent.
func EventID(event uuid.UUID, further int) uuid.UUID {
	if further == 0 {
		return event
	}
	return derived(event, "event", strconv.Itoa(further))
}

// derived returns a UUIDv7 with the time of another one, and a hash of purpose and name.
func derived(from uuid.UUID, purpose, name string) uuid.UUID {
	sum := sha256.Sum256(append(from[:], (purpose + "\x00" + name)...))
	id := from
	copy(id[8:], sum[:])
	id[8] = id[8]&0x3f | 0x80
	return id
}

// FormatEventID returns the evt_ id by which receivers know an event.
func FormatEventID(id uuid.UUID) string {
	text, err := typeid.FromUUID("evt", id.String())
	if err != nil {
		panic(err) // cannot happen: evt is a valid prefix
	}
	return text.String()
}
