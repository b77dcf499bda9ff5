package webhooks

import (
	"context"
	"time"

	"ledgerline/domain/webhook"
)

// PostTimeout is how long a receiver has to answer, in real time.
const PostTimeout = webhook.Timeout

// Poster posts deliveries. It is safe for concurrent use.
type Poster interface {
	// Post makes one attempt. It follows no redirects, and waits for the header of the answer for at most PostTimeout.
	Post(context.Context, Post) PostResult
}

// Post is the request of one attempt.
type Post struct {
	URL       string
	ID        string // evt_ id
	At        time.Time
	Signature string
	Body      []byte
}

// PostResult is the result of one attempt.
type PostResult struct {
	Status     int           // HTTP status of the answer; 0 without an answer
	Latency    time.Duration // until the header of the answer, or until the attempt failed
	RetryAfter string        // the header of that name
	// Error says in words for a user of the API why the attempt failed; "" for a success.
	Error string
	// TimedOut says that the receiver did not answer in time.
	TimedOut bool
	// Canceled says that the context ended before there was an answer: the attempt says nothing about the receiver.
	Canceled bool
}
