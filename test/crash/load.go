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

// write is one request that changes something, under its idempotency key, and what was answered.
type write struct {
	key    string
	kind   string // message, contact, consent or cancel
	tenant *tenant
	to     *contact
	test   bool // with the test key
	path   string
	body   []byte
	want   string // consent that it leaves behind, where it succeeds
	ref    string // what was made or changed, once it is known

	status int // 0: not answered
	answer []byte
}

func (w *write) answered() bool { return w.status != 0 }

// load are the callers while they write.
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
	recent  []string // messages that may be canceled
	wronged *write   // refused because of an opt-out: next the contact opts in, perhaps
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

// stop lets every caller finish what it is at, and gives all writes.
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
		if c.carry(ctx, w) {
			c.learn(w)
			c.look(ctx, w)
		}
	}
}

// next makes up a write.
func (c *caller) next() *write {
	w := &write{key: fmt.Sprintf("crash-%d-%d", c.number, len(c.writes))}
	p := c.random.Float64()
	if wronged := c.wronged; wronged != nil {
		c.wronged = nil
		if p < 0.5 {
			w.tenant, w.to = wronged.tenant, wronged.to
			return c.consent(w, "opted_in")
		}
	}
	w.tenant = c.trial.tenants[c.random.IntN(len(c.trial.tenants))]
	w.to = c.addressee(w.tenant)
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

func (c *caller) addressee(o *tenant) *contact {
	p := c.random.IntN(100)
	for _, e := range endings {
		if p -= e.messages; p < 0 && len(o.byEnding[e.name]) > 0 {
			return o.byEnding[e.name][c.random.IntN(len(o.byEnding[e.name]))]
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

// consent changes the consent of a contact, or makes it when nobody has yet.
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
	for _, earlier := range c.writes { // the tenant that it belongs to
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

// learn takes what an answer tells.
func (c *caller) learn(w *write) {
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
		w.to.learn(a.ContactID, v)
		if c.recent = append(c.recent, a.ID); len(c.recent) > keptRecent {
			c.recent = c.recent[1:]
		}
	case w.kind == "message":
		c.wronged = w
	case w.kind == "contact" && w.status == http.StatusCreated:
		w.ref = a.ID
		w.to.learn(a.ID, v)
	case w.kind == "contact":
		w.to.learn(a.Error.Details.ContactID, v)
	}
}

// answer is what is looked at of answers.
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

// look reads, now and then, what was just answered for: whoever got an answer sees it in every later read.
func (c *caller) look(ctx context.Context, w *write) {
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

// carry sends a write until it is answered; false when that did not come to pass.
func (c *caller) carry(ctx context.Context, w *write) bool {
	var deadline time.Time
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if c.trial.once(ctx, c.client, w) {
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
