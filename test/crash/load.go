package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// write is one request that changes something, with its idempotency key and its answer.
type write struct {
	key    string
	kind   string // message, contact, consent or cancel
	tenant *tenant
	to     *contact
	test   bool // whether it uses the test key
	path   string
	body   []byte
	want   string // consent of the contact after success
	ref    string // id of the created or changed resource; "" until it is known

	status int // 0: not answered
	answer []byte
}

func (w *write) answered() bool { return w.status != 0 }

// load runs the callers.
type load struct {
	trial   *trial
	over    chan struct{}
	callers []*caller
	done    sync.WaitGroup
}

// caller is a careful client: it repeats a write under the same key until it is answered.
type caller struct {
	trial  *trial
	number int
	random *rand.Rand
	client *http.Client
	over   <-chan struct{}

	writes  []*write
	recent  []string // the last accepted messages, to cancel some of them
	refused *write   // last refused message; the next write may opt its contact in
}

const (
	requestLimit = 15 * time.Second // one request
	lastLimit    = 45 * time.Second // a write that is still unanswered when the load ends
	keptRecent   = 20
)

func (t *trial) startLoad(ctx context.Context) *load {
	l := &load{trial: t, over: make(chan struct{})}
	client := t.httpClient()
	for i := range t.Callers {
		c := &caller{trial: t, number: i, random: rand.New(rand.NewPCG(t.Seed, uint64(1000+i))), client: client, over: l.over} //nolint:gosec // repeatable on purpose
		l.callers = append(l.callers, c)
		l.done.Go(func() { c.run(ctx) })
	}
	return l
}

func (t *trial) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: t.Callers}, Timeout: requestLimit}
}

// stop waits until every caller has finished its current write, and returns all writes.
func (l *load) stop() []*write {
	close(l.over)
	l.done.Wait()
	var all []*write
	for _, c := range l.callers {
		all = append(all, c.writes...)
	}
	for _, w := range all {
		if w.answered() {
			l.trial.report.Answered++
		}
		if w.status >= http.StatusBadRequest {
			l.trial.report.Refused++
		}
	}
	return all
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-c.over:
			return
		default:
		}
		w := c.next()
		c.writes = append(c.writes, w)
		if c.sendUntilAnswered(ctx, w) {
			c.recordAnswer(w)
			c.readSometimes(ctx, w)
		}
	}
}

// next returns a random write.
func (c *caller) next() *write {
	w := &write{key: fmt.Sprintf("crash-%d-%d", c.number, len(c.writes))}
	p := c.random.Float64()
	if refused := c.refused; refused != nil {
		c.refused = nil
		if p < 0.5 {
			w.tenant, w.to = refused.tenant, refused.to
			return c.consent(w, "opted_in")
		}
	}
	w.tenant = c.trial.tenants[c.random.IntN(len(c.trial.tenants))]
	w.to = c.pickContact(w.tenant)
	switch {
	case p < 0.06:
		return c.contact(w)
	case p < 0.10:
		return c.consent(w, "opted_in")
	case p < 0.14:
		return c.consent(w, "opted_out")
	case p < 0.15:
		return c.consent(w, "unknown")
	case p < 0.18 && len(c.recent) > 0:
		return c.cancel(w)
	}
	return c.message(w)
}

func (c *caller) pickContact(o *tenant) *contact {
	p := c.random.IntN(100)
	for _, e := range numberScripts {
		if p -= e.messages; p < 0 && len(o.byScript[e.name]) > 0 {
			return o.byScript[e.name][c.random.IntN(len(o.byScript[e.name]))]
		}
	}
	return o.contacts[c.random.IntN(len(o.contacts))]
}

func (c *caller) message(w *write) *write {
	w.kind, w.path = "message", "/v1/messages"
	w.test = w.to.sandbox && c.random.IntN(4) == 0
	body := map[string]any{"body": "Your code is " + w.key, "external_id": w.key}
	if id := w.to.known(); id != "" && c.random.IntN(3) == 0 {
		body["contact_id"] = id
	} else {
		body["to"] = w.to.phone
	}
	w.body = encode(body)
	return w
}

func (c *caller) contact(w *write) *write {
	w.kind, w.path = "contact", "/v1/contacts"
	w.body = encode(map[string]any{"phone": w.to.phone, "first_name": "Grace", "labels": []string{"crash"}})
	return w
}

// consent changes the consent of a contact. It creates the contact if its id is not known yet.
func (c *caller) consent(w *write, to string) *write {
	id := w.to.known()
	if id == "" {
		return c.contact(w)
	}
	w.kind, w.want, w.ref = "consent", to, id
	if to == "opted_out" && c.random.IntN(2) == 0 {
		w.path, w.body = "/v1/contacts/"+id+"/opt-out", encode(map[string]any{"source": "crash"})
	} else {
		w.path, w.body = "/v1/contacts/"+id+"/consent", encode(map[string]any{"status": to, "source": "crash"})
	}
	return w
}

func (c *caller) cancel(w *write) *write {
	i := c.random.IntN(len(c.recent))
	for _, earlier := range c.writes { // find the tenant of the message
		if earlier.ref == c.recent[i] {
			w.tenant, w.to, w.test = earlier.tenant, earlier.to, earlier.test
		}
	}
	w.kind, w.ref = "cancel", c.recent[i]
	w.path, w.body = "/v1/messages/"+w.ref+"/cancel", []byte("{}")
	return w
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of texts
	}
	return text
}

// expected are the statuses that a write may be answered with.
var expected = map[string]map[int]bool{
	"message": {http.StatusCreated: true, http.StatusUnprocessableEntity: true},
	"contact": {http.StatusCreated: true, http.StatusConflict: true},
	"consent": {http.StatusOK: true},
	"cancel":  {http.StatusOK: true, http.StatusConflict: true},
}

// recordAnswer checks the status of an answer and records the ids in it.
func (c *caller) recordAnswer(w *write) {
	v := &c.trial.violations
	if !expected[w.kind][w.status] {
		v.add("an unexpected answer", "%s (%s): %d %s", w.kind, w.key, w.status, w.answer)
		return
	}
	var a answer
	if err := json.Unmarshal(w.answer, &a); err != nil {
		v.add("an answer that is no JSON", "%s (%s): %d", w.kind, w.key, w.status)
		return
	}
	switch {
	case w.kind == "message" && w.status == http.StatusCreated:
		w.ref = a.ID
		w.to.setID(a.ContactID, v)
		if c.recent = append(c.recent, a.ID); len(c.recent) > keptRecent {
			c.recent = c.recent[1:]
		}
	case w.kind == "message":
		c.refused = w
	case w.kind == "contact" && w.status == http.StatusCreated:
		w.ref = a.ID
		w.to.setID(a.ID, v)
	case w.kind == "contact":
		w.to.setID(a.Error.Details.ContactID, v)
	}
}

// answer has the properties of answers that the checks use.
type answer struct {
	ID         string `json:"id"`
	ContactID  string `json:"contact_id"`
	Status     string `json:"status"`
	Body       string `json:"body"`
	Phone      string `json:"phone"`
	ExternalID string `json:"external_id"`
	CreatedAt  string `json:"created_at"`
	Consent    string `json:"consent_status"`
	Error      struct {
		Code    string `json:"code"`
		Details struct {
			ContactID string `json:"contact_id"`
		} `json:"details"`
	} `json:"error"`
}

// readSometimes reads one of twenty written resources right after the answer: a read after an answered write must show
// it.
func (c *caller) readSometimes(ctx context.Context, w *write) {
	if w.status >= http.StatusBadRequest || w.ref == "" || c.random.IntN(20) != 0 {
		return
	}
	path := "/v1/contacts/" + w.ref
	if w.kind == "message" || w.kind == "cancel" {
		path = "/v1/messages/" + w.ref
	}
	status, _, _, err := c.trial.send(ctx, c.client, http.MethodGet, path, w.secret(), "", nil)
	if err == nil && status < http.StatusInternalServerError && status != http.StatusOK {
		c.trial.violations.add("an answered write that cannot be read", "%s (%s): %d", path, w.key, status)
	}
}

func (w *write) secret() string {
	if w.test {
		return w.tenant.test
	}
	return w.tenant.live
}

// sendUntilAnswered repeats a write until it is answered. It returns false if ctx ends, or lastLimit after the load has
// ended.
func (c *caller) sendUntilAnswered(ctx context.Context, w *write) bool {
	var deadline time.Time
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if c.trial.sendOnce(ctx, c.client, w) {
			return true
		}
		atomic.AddInt64(&c.trial.report.Repeated, 1)
		select {
		case <-c.over:
			if deadline.IsZero() {
				deadline = time.Now().Add(lastLimit)
			}
			if time.Now().After(deadline) {
				return false
			}
		default:
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause/2 + time.Duration(c.random.Int64N(int64(pause)))):
		}
	}
}
