package events

import (
	"time"

	"github.com/google/uuid"
)

// WebhookCreated makes a webhook endpoint. Stream: the endpoint id. Address and secret are sealed under the endpoint's own
// key, which its deletion destroys: an address often has a token in it.
type WebhookCreated struct {
	EndpointID string         `json:"endpoint_id"`
	Events     []string       `json:"events"` // the types it is told of, sorted
	Private    WebhookPrivate `json:"-"`
}

// WebhookPrivate is what is sealed of a webhook endpoint.
type WebhookPrivate struct {
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"` // whsec_…
}

// Subject implements Sealed.
func (e *WebhookCreated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookCreated) Personal() any { return &e.Private }

// WebhookUpdated changes address or types; what did not change is absent.
type WebhookUpdated struct {
	EndpointID string         `json:"endpoint_id"`
	Events     []string       `json:"events,omitempty"`
	URLChanged bool           `json:"moved,omitempty"` // the address is another one, sealed in Private.URL
	Private    WebhookPrivate `json:"-"`
}

// Subject implements Sealed.
func (e *WebhookUpdated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookUpdated) Personal() any { return &e.Private }

// WebhookPaused holds an endpoint's deliveries back.
type WebhookPaused struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookResumed lets them go on.
type WebhookResumed struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookDisabled ends deliveries to an endpoint that does not take them.
type WebhookDisabled struct {
	EndpointID string `json:"endpoint_id"`
	Reason     string `json:"reason"` // failing or gone
}

// WebhookEnabled takes a disabled endpoint into service again; a fresh failure window starts.
type WebhookEnabled struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookSecretRotated gives an endpoint another secret. The one before signs along until Until.
type WebhookSecretRotated struct {
	EndpointID string         `json:"endpoint_id"`
	Until      time.Time      `json:"until"`
	Private    WebhookPrivate `json:"-"`
}

// Subject implements Sealed.
func (e *WebhookSecretRotated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookSecretRotated) Personal() any { return &e.Private }

// WebhookDeleted removes an endpoint with its deliveries.
type WebhookDeleted struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookTested asks for one delivery of an example. Stream: the delivery's, see DeliveryStream.
type WebhookTested struct {
	EndpointID string    `json:"endpoint_id"`
	DeliveryID uuid.UUID `json:"delivery_id"`
	EventID    uuid.UUID `json:"event_id"`
	Type       string    `json:"type"`
}

// WebhookReplayed asks for one more attempt of a finished delivery. Stream: the delivery's.
type WebhookReplayed struct {
	EndpointID string    `json:"endpoint_id"`
	DeliveryID uuid.UUID `json:"delivery_id"`
}

// WebhookAttempted tells what became of attempts to deliver to one endpoint. Outcomes that come in together are told
// together. Stream: its own, see AttemptStream.
type WebhookAttempted struct {
	EndpointID string           `json:"endpoint_id"`
	Attempts   []WebhookAttempt `json:"attempts"`
}

// WebhookAttempt is one attempt.
type WebhookAttempt struct {
	DeliveryID uuid.UUID `json:"delivery_id"`
	EventID    uuid.UUID `json:"event_id"`
	Number     int       `json:"number"` // of the delivery's attempts, from 1
	At         time.Time `json:"at"`
	StatusCode int       `json:"status_code,omitempty"` // 0 when no answer came
	LatencyMS  int       `json:"latency_ms"`
	Error      string    `json:"error,omitempty"` // "" for a success
	// Next is when the next attempt is due; absent when this one was the last.
	Next *time.Time `json:"next,omitempty"`
	// Uncounted attempts say nothing about the endpoint: tests, replays, and those cut off by us.
	Uncounted bool `json:"uncounted,omitempty"`
	// Gone tells that the receiver answered 410.
	Gone bool `json:"gone,omitempty"`
}

// WebhookGivenUp ends deliveries that wait and will not be attempted any more. Stream: its own.
type WebhookGivenUp struct {
	EndpointID  string      `json:"endpoint_id"`
	DeliveryIDs []uuid.UUID `json:"delivery_ids"`
	Reason      string      `json:"reason"` // endpoint_disabled, endpoint_paused or erased
}

// DeliveryStream names the stream of what is asked for one delivery by hand: its test, its replays.
func DeliveryStream(id uuid.UUID) string { return Stream("whd", id) }

// AttemptStream names the stream of one report of what became of an endpoint's deliveries. Every report begins its own:
// nothing is decided by what lies before it.
func AttemptStream(report uuid.UUID) string { return Stream("att", report) }
