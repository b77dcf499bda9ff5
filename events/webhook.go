package events

import (
	"time"

	"github.com/google/uuid"
)

// WebhookCreated creates a webhook endpoint. Stream: the endpoint id. URL and secret are encrypted like personal data,
// because URLs often contain tokens; the key is the endpoint's own and is destroyed when the endpoint is deleted.
type WebhookCreated struct {
	EndpointID string         `json:"endpoint_id"`
	Events     []string       `json:"events"` // types of events that are delivered, sorted
	Private    WebhookPrivate `json:"-"`
}

// WebhookPrivate is the encrypted data of a webhook endpoint.
type WebhookPrivate struct {
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"` // whsec_…
}

// Subject implements Sealed.
func (e *WebhookCreated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookCreated) Personal() any { return &e.Private }

// WebhookUpdated changes the URL or the types of events. Fields that did not change are absent.
type WebhookUpdated struct {
	EndpointID string         `json:"endpoint_id"`
	Events     []string       `json:"events,omitempty"`
	URLChanged bool           `json:"moved,omitempty"` // Private.URL is the new URL
	Private    WebhookPrivate `json:"-"`
}

// Subject implements Sealed.
func (e *WebhookUpdated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookUpdated) Personal() any { return &e.Private }

// WebhookPaused pauses the deliveries to an endpoint.
type WebhookPaused struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookResumed resumes the deliveries to an endpoint.
type WebhookResumed struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookDisabled ends the deliveries to an endpoint that does not accept them.
type WebhookDisabled struct {
	EndpointID string `json:"endpoint_id"`
	Reason     string `json:"reason"` // failing or gone
}

// WebhookEnabled resumes the deliveries to a disabled endpoint. Its failures are counted from zero.
type WebhookEnabled struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookSecretRotated gives an endpoint a new secret. Deliveries are also signed with the old one until Until.
type WebhookSecretRotated struct {
	EndpointID string         `json:"endpoint_id"`
	Until      time.Time      `json:"until"`
	Private    WebhookPrivate `json:"-"`
}

// Subject implements Sealed.
func (e *WebhookSecretRotated) Subject() string { return e.EndpointID }

// Personal implements Sealed.
func (e *WebhookSecretRotated) Personal() any { return &e.Private }

// WebhookDeleted deletes an endpoint and its deliveries.
type WebhookDeleted struct {
	EndpointID string `json:"endpoint_id"`
}

// WebhookTested requests the delivery of an example event. Stream: that of the delivery, see DeliveryStream.
type WebhookTested struct {
	EndpointID string    `json:"endpoint_id"`
	DeliveryID uuid.UUID `json:"delivery_id"`
	EventID    uuid.UUID `json:"event_id"`
	Type       string    `json:"type"`
}

// WebhookReplayed requests one more attempt of a finished delivery. Stream: that of the delivery.
type WebhookReplayed struct {
	EndpointID string    `json:"endpoint_id"`
	DeliveryID uuid.UUID `json:"delivery_id"`
}

// WebhookRangeReplayed requests one more attempt of each of these finished deliveries of an endpoint, which were
// created in the range From to To; deliveries that are pending meanwhile are skipped. Stream: its own, see
// AttemptStream.
type WebhookRangeReplayed struct {
	EndpointID  string      `json:"endpoint_id"`
	From        time.Time   `json:"from"`
	To          time.Time   `json:"to"`
	DeliveryIDs []uuid.UUID `json:"delivery_ids"`
}

// WebhookAttempted records the results of attempts to deliver to one endpoint; results that arrive together are one
// event. Stream: its own, see AttemptStream.
type WebhookAttempted struct {
	EndpointID string           `json:"endpoint_id"`
	Attempts   []WebhookAttempt `json:"attempts"`
}

// WebhookAttempt is the result of one attempt.
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
	// Uncounted attempts do not count as success or failure of the endpoint: tests, replays, and attempts that this
	// service cut off.
	Uncounted bool `json:"uncounted,omitempty"`
	// Gone is true when the receiver answered 410 (Gone).
	Gone bool `json:"gone,omitempty"`
}

// WebhookGivenUp ends pending deliveries that will not be attempted again. Stream: its own.
type WebhookGivenUp struct {
	EndpointID  string      `json:"endpoint_id"`
	DeliveryIDs []uuid.UUID `json:"delivery_ids"`
	Reason      string      `json:"reason"` // endpoint_disabled, endpoint_paused or erased
}

// DeliveryStream returns the name of the stream of a delivery: its request as a test, and its replays.
func DeliveryStream(id uuid.UUID) string { return Stream("whd", id) }

// AttemptStream returns the name of the stream of one WebhookAttempted, WebhookGivenUp or WebhookRangeReplayed. Each
// has a stream of its own, because no command depends on earlier ones.
func AttemptStream(report uuid.UUID) string { return Stream("att", report) }
