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

// checkers is how many requests the checks make concurrently.
const checkers = 32

// checkAnswers compares the answers that the callers got with what the service answers now. It first repeats the writes
// that are still unanswered. Then it uses every key once more, which must give the same answer and append nothing. At
// last it reads every resource that was written.
func (t *trial) checkAnswers(ctx context.Context) error {
	client := t.httpClient()
	last := &caller{trial: t, client: client}
	for _, w := range t.writes {
		if w.answered() {
			continue
		}
		if !t.sendOnce(ctx, client, w) {
			t.violations.add("a write that is never answered", "%s (%s)", w.kind, w.key)
			continue
		}
		last.recordAnswer(w)
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
		t.violations.add("a repeated key appended events", "the ledger went from %s to %s", before, after)
	}
	t.say("reading what was written")
	return t.each(ctx, func(ctx context.Context, w *write) error { return t.readBack(ctx, client, w) })
}

// each calls do for every answered write, with up to checkers calls at the same time.
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

// replay repeats an answered write under its key and checks that the answer is the same.
func (t *trial) replay(ctx context.Context, client *http.Client, w *write, rebuilt *atomic.Int64) error {
	status, body, replayed, err := t.send(ctx, client, http.MethodPost, w.path, w.secret(), w.key, w.body)
	if err != nil {
		return err
	}
	switch {
	case !replayed || status != w.status:
		t.violations.add("an answered write that was executed again or forgotten", "%s (%s): %d, then %d %s", w.kind, w.key, w.status, status, body)
	case bytes.Equal(body, w.answer):
	case w.kind != "message" && status < http.StatusBadRequest && sameResource(w.answer, body):
		rebuilt.Add(1) // the answer is stored after it is given; after a kill in between, a retry builds it from the read model
	default:
		t.violations.add("another answer to the same key", "%s (%s): %s, then %s", w.kind, w.key, w.answer, body)
	}
	return nil
}

// sameResource compares the properties of two answers that cannot have changed in between.
func sameResource(one, other []byte) bool {
	var a, b answer
	if json.Unmarshal(one, &a) != nil || json.Unmarshal(other, &b) != nil {
		return false
	}
	return a.ID == b.ID && a.Phone == b.Phone && a.CreatedAt == b.CreatedAt && a.ContactID == b.ContactID && a.Body == b.Body
}

// readBack reads the resource that a write created or changed, and compares it with the answer.
func (t *trial) readBack(ctx context.Context, client *http.Client, w *write) error {
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
	if !sameResource(w.answer, body) || w.kind == "message" && found.ExternalID != w.key || w.kind == "cancel" && found.Status != "failed" {
		t.violations.add("a read that differs from the answered write", "%s (%s): %s, and was answered with %s", path, w.key, body, w.answer)
	}
	return nil
}
