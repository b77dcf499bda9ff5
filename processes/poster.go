package processes

import (
	"context"
	"time"

	"ledgerline/domain/webhook"
)

// PostTimeout is how long a receiver has to answer, in real time.
const PostTimeout = webhook.Timeout

// Poster posts webhooks. It is safe for concurrent use.
type Poster interface {
	// Post makes one attempt and tells what came of it. It follows no redirects, and takes no longer than PostTimeout to the
	// header of the answer.
	Post(context.Context, Post) Posted
}

// Post is one attempt.
type Post struct {
	URL       string
	ID        string // evt_ id
	At        time.Time
	Signature string
	Body      []byte
}

// Posted is what came of it.
type Posted struct {
	Status     int // of the answer; 0 without one
	Latency    time.Duration
	RetryAfter string // as the answer had it
	// Error says in a user's words why the attempt failed; "" for a success.
	Error string
	// Canceled tells that the context ended before there was an answer: nobody's fault but ours.
	Canceled bool
}
