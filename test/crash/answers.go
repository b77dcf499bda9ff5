package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// checkers is how many requests are made at once while the node is only looked at.
const checkers = 32

// checkAnswers holds what was answered against what the service says now: what is still unanswered is asked again
// first, then every key is used once more, which must give the same answer and change nothing, then everything is read.
func (t *trial) checkAnswers(ctx context.Context) error {
	client := t.httpClient()
	last := &caller{trial: t, client: client}
	for _, w := range t.writes {
		if w.answered() {
			continue
		}
		if !t.once(ctx, client, w) {
			t.violations.add("a write that is never answered", "%s (%s)", w.kind, w.key)
			continue
		}
		last.learn(w)
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	before, err := t.heads(ctx)
	if err != nil {
		return err
	}
	t.say("using %d keys once more", len(t.writes))
	var rebuilt atomic.Int64
	if err := t.each(ctx, func(ctx context.Context, w *write) error { return t.replay(ctx, client, w, &rebuilt) }); err != nil {
		return err
	}
	t.report.Rebuilt = int(rebuilt.Load())
	after, err := t.heads(ctx)
	if err != nil {
		return err
	}
	if before != after {
		t.violations.add("a key that was used twice did something twice", "the ledger went from %s to %s", before, after)
	}
	t.say("reading what was written")
	return t.each(ctx, func(ctx context.Context, w *write) error { return t.read(ctx, client, w) })
}

// each calls do for every answered write, many at once.
func (t *trial) each(ctx context.Context, do func(context.Context, *write) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(checkers)
	for _, w := range t.writes {
		if w.answered() {
			g.Go(func() error { return do(ctx, w) })
		}
	}
	return g.Wait()
}

const headsSQL = `select string_agg(shard || ':' || position, ' ' order by shard) from ledger_heads`

func (t *trial) heads(ctx context.Context) (heads string, err error) {
	if err := t.pool.QueryRow(ctx, headsSQL).Scan(&heads); err != nil {
		return "", fmt.Errorf("read the heads: %w", err)
	}
	return heads, nil
}

// replay uses a key again.
func (t *trial) replay(ctx context.Context, client *http.Client, w *write, rebuilt *atomic.Int64) error {
	status, body, replayed, err := t.send(ctx, client, http.MethodPost, w.path, w.secret(), w.key, w.body)
	if err != nil {
		return err
	}
	switch {
	case !replayed || status != w.status:
		t.violations.add("an answered write that was not remembered", "%s (%s): %d, then %d %s", w.kind, w.key, w.status, status, body)
	case bytes.Equal(body, w.answer):
	case w.kind != "message" && status < http.StatusBadRequest && sameThing(w.answer, body):
		rebuilt.Add(1) // the answer is stored after it is given; killed in between, it is built again from the view
	default:
		t.violations.add("another answer to the same key", "%s (%s): %s, then %s", w.kind, w.key, w.answer, body)
	}
	return nil
}

// sameThing compares what cannot have changed of two views of a resource.
func sameThing(one, other []byte) bool {
	var a, b answer
	if json.Unmarshal(one, &a) != nil || json.Unmarshal(other, &b) != nil {
		return false
	}
	return a.ID == b.ID && a.Phone == b.Phone && a.CreatedAt == b.CreatedAt && a.ContactID == b.ContactID && a.Body == b.Body
}

// read reads what a write made or changed.
func (t *trial) read(ctx context.Context, client *http.Client, w *write) error {
	if w.status >= http.StatusBadRequest {
		return nil
	}
	path := "/v1/contacts/" + w.ref
	if w.kind == "message" || w.kind == "cancel" {
		path = "/v1/messages/" + w.ref
	}
	status, body, _, err := t.send(ctx, client, http.MethodGet, path, w.secret(), "", nil)
	if err != nil {
		return err
	}
	var found answer
	if status != http.StatusOK {
		t.violations.add("an answered write that cannot be read", "%s (%s): %d", path, w.key, status)
		return nil
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !sameThing(w.answer, body) || w.kind == "message" && found.ExternalID != w.key || w.kind == "cancel" && found.Status != "failed" {
		t.violations.add("an answered write that reads otherwise", "%s (%s): %s, and was answered with %s", path, w.key, body, w.answer)
	}
	return nil
}
