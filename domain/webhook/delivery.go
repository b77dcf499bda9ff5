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
)

// delays are between an attempt and the next one (decisions, section 10). The first attempt is made at once.
var delays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// MaxAttempts is how often a delivery is attempted before it fails.
	MaxAttempts = 10
	// Timeout is how long a receiver has to answer, in real time.
	Timeout = 15 * time.Second
	// InFlight is how many deliveries to one endpoint are under way at once, at most.
	MaxInFlight = 5
	// HeldFor is how long a delivery waits for a paused endpoint before it fails.
	MaxPausedWait = 72 * time.Hour

	jitter = 0.2
)

// Reasons for which a delivery fails without an attempt.
const (
	ErrorDisabled    = "endpoint_disabled"
	ErrorPaused      = "endpoint_paused"
	ErrorErased      = "erased"
	ErrorInterrupted = "interrupted: the service stopped during the attempt, its outcome is unknown"
)

// RetryDelay is how long after its attempt with this number (from 1) a delivery is attempted again; false when that was the
// last one. random is in [0, 1) and spreads the delay by a fifth to either side. What the receiver asked for (retryAfter,
// 0 when it did not) makes it longer, at most twice as long as planned.
func RetryDelay(number int, random float64, retryAfter time.Duration) (time.Duration, bool) {
	if number < 1 || number > len(delays) {
		return 0, false
	}
	planned := delays[number-1]
	delay := time.Duration(float64(planned) * (1 - jitter + 2*jitter*random))
	return max(delay, min(retryAfter, 2*planned)), true
}

// FailureWindow is how an endpoint has failed since its last success, or since it was enabled. The zero value has seen no
// failure.
type FailureWindow struct {
	Since      time.Time // of the first failed attempt
	Attempts   int       // that failed
	Events     int       // how many different ones they belong to: 0, 1, or 2 for more
	FirstEvent uuid.UUID
}

// What it takes to disable an endpoint (decisions, section 10).
const (
	windowLength   = 120 * time.Hour
	windowAttempts = 10
	windowEvents   = 2
)

// AfterFailure is the window after a failed attempt.
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

// DisableAt is when the endpoint is to be disabled if nothing succeeds until then; false while too little has failed.
func (w FailureWindow) DisableAt() (time.Time, bool) {
	return w.Since.Add(windowLength), w.Attempts >= windowAttempts && w.Events >= windowEvents
}

// MustDisable tells whether the endpoint is to be disabled.
func (w FailureWindow) MustDisable(now time.Time) bool {
	end, enough := w.DisableAt()
	return enough && !now.Before(end)
}

// Sign makes the webhook-signature header of Standard Webhooks 1.0.0: one v1 signature per secret.
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

// DeliveryID is the id of the delivery of an event to an endpoint: the same whoever works it out, and as old as the event.
func DeliveryID(event uuid.UUID, endpointID string) uuid.UUID {
	return derived(event, "delivery", endpointID)
}

// EventID is the id under which receivers know what an event of the ledger led to: its own, or one derived from it for
// every further thing that it tells.
func EventID(event uuid.UUID, further int) uuid.UUID {
	if further == 0 {
		return event
	}
	return derived(event, "event", strconv.Itoa(further))
}

// derived is a UUIDv7 with another one's time and place within it.
func derived(from uuid.UUID, purpose, name string) uuid.UUID {
	sum := sha256.Sum256(append(from[:], (purpose + "\x00" + name)...))
	id := from
	copy(id[8:], sum[:])
	id[8] = id[8]&0x3f | 0x80
	return id
}
