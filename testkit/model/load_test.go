package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"ledgerline/processes"
	"ledgerline/testkit/app"
	"ledgerline/testkit/model"
)

// act does one thing that people do; true when it was a message that was accepted.
func (s *site) act(r *rand.Rand) bool {
	g := s.grounds[r.IntN(len(s.grounds))]
	p := g.people[r.IntN(len(g.people))]
	switch pick := r.IntN(1000); {
	case pick < 110:
		s.inbound(r, g, p, chatter[r.IntN(len(chatter))])
	case pick < 122:
		s.optOut(r, p, func() bool {
			return s.inbound(r, g, p, []string{"STOP", "Stop.", "unsubscribe", "«Arrêt»"}[r.IntN(4)])
		})
	case pick < 132:
		s.optOut(r, p, func() bool {
			if p.id == "" {
				return false
			}
			status, _ := s.request(r, g.live, http.MethodPost, "/v1/contacts/"+p.id+"/opt-out", app.Map{"source": "by phone"})
			return status == http.StatusOK
		})
	case pick < 165:
		s.optIn(r, g, p)
	case pick < 170:
		s.inbound(r, g, p, "HELP")
	case pick < 200:
		s.cancel(r)
	case pick < 212:
		s.pauseOrResume(r, g)
	case pick < 215:
		s.quarantine(r, g)
	case pick < 230:
		s.send(r, g, p, true)
	default:
		return s.send(r, g, p, false)
	}
	return false
}

var (
	chatter = []string{"On my way", "Who is this?", "Thanks!", "start now?", "stop it please"}
	adverts = []string{"Big sale today", " Big sale today ", "We are open again", "Your table is ready"}
)

// body is something to say.
func body(r *rand.Rand) string {
	text := "Your code is "
	for range 12 {
		text += string(rune('a' + r.IntN(26)))
	}
	switch pick := r.IntN(100); {
	case pick < 10:
		return adverts[r.IntN(len(adverts))]
	case pick < 15:
		return text + ", see https://example.com/x"
	case pick < 16:
		return text + ", write to sam@example.com"
	case pick < 17:
		return text + ", call 415-555-2671"
	case pick < 19:
		return text + strings.Repeat("é", 301-len(text))
	case pick < 20:
		return text + strings.Repeat("é", 300-len(text))
	}
	return text
}

// send has a message accepted, or asks what would become of it.
func (s *site) send(r *rand.Rand, g *ground, p *person, dry bool) bool {
	token, in := g.live, app.Map{"body": body(r)}
	now := s.clock.Now()
	switch pick := r.IntN(100); {
	case pick < 4:
		token, p = g.test, g.sandboxed[r.IntN(len(g.sandboxed))]
	case pick < 12:
		in["line_id"] = g.Lines[r.IntN(len(g.Lines))].ID
	case pick < 45:
		in["pool_id"] = g.pools[r.IntN(len(g.pools))]
	}
	switch pick := r.IntN(100); {
	case pick < 8:
		in["send_at"] = now.Add(time.Duration(1+r.IntN(30*60)) * time.Minute).Format(time.RFC3339)
	case pick < 10:
		in["send_at"] = now.Add(-time.Minute).Format(time.RFC3339)
	case pick < 12:
		in["media"] = []app.Map{{"url": "https://example.com/a.png"}}
	case pick < 22:
		in["fallback"] = false
	}
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	if id != "" && token == g.live && r.IntN(3) == 0 {
		in["contact_id"] = id
	} else {
		in["to"] = p.phone
	}
	path, want := "/v1/messages", http.StatusCreated
	if dry {
		path, want = path+"?dry_run=true", http.StatusOK
	}
	status, answer := s.request(r, token, http.MethodPost, path, in)
	failed, _ := answer["error"].(app.Map)
	switch {
	case status == want && dry, status == http.StatusUnprocessableEntity && failed["code"] == "contact_opted_out":
		return false
	case status != want:
		s.t.Errorf("%s: %d %v", path, status, answer)
		return false
	case answer["status"] != "queued":
		s.t.Errorf("an accepted message is %v", answer["status"])
	}
	message, _ := answer["id"].(string)
	contact, _ := answer["contact_id"].(string)
	p.mu.Lock()
	p.id = contact
	p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[message] = true
	s.recent = append(s.recent, sent{g, message})
	return true
}

// inbound plays a message of a person's, told once or twice.
func (s *site) inbound(r *rand.Rand, g *ground, p *person, text string) bool {
	in := processes.Inbound{CarrierID: fmt.Sprintf("in_%x", r.Uint64()), Line: g.Lines[r.IntN(len(g.Lines))].Phone, From: p.phone, Body: text, Channel: "chat"}
	var first string
	for range 1 + r.IntN(10)/7 {
		s.again(r, "a message from a contact", func(n *app.Node) error {
			return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				id, err := processes.NewReports(n.App).Message(ctx, in)
				if err == nil && first != "" && id != first {
					s.t.Errorf("the same message from a contact is %s and %s", first, id)
				}
				if err == nil {
					first = id
				}
				return err
			})
		})
	}
	return true
}

// optOut has a person opt out, in one way or another, and remembers when that was answered.
func (s *site) optOut(r *rand.Rand, p *person, do func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out > 0 && r.IntN(4) > 0 || !do() || p.out > 0 || p.id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outs = append(s.outs, model.OptOut{ContactID: p.id, Answered: s.world.Tick()})
	p.out = len(s.outs)
}

// optIn has a person opt in, or takes back what is known of its consent: the register of opt-outs still counts then.
func (s *site) optIn(r *rand.Rand, g *ground, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == "" || p.out == 0 && r.IntN(4) > 0 {
		return
	}
	to := "opted_in"
	if r.IntN(10) == 0 && !p.shared { // else the opt-in of another workspace would let messages go
		to = "unknown"
	}
	if p.out > 0 && to == "opted_in" {
		s.mu.Lock()
		s.outs[p.out-1].Until = s.world.Tick()
		s.mu.Unlock()
		p.out = 0
	}
	if to == "opted_in" && r.IntN(2) == 0 {
		s.inbound(r, g, p, []string{"START", "Yes!", "unstop"}[r.IntN(3)])
		return
	}
	if status, answer := s.request(r, g.live, http.MethodPost, "/v1/contacts/"+p.id+"/consent", app.Map{"status": to, "source": "web form"}); status != http.StatusOK {
		s.t.Errorf("a change of consent: %d %v", status, answer)
	}
}

func (s *site) cancel(r *rand.Rand) {
	s.mu.Lock()
	if len(s.recent) == 0 {
		s.mu.Unlock()
		return
	}
	m := s.recent[max(0, len(s.recent)-1-r.IntN(60))]
	s.mu.Unlock()
	status, answer := s.request(r, m.ground.live, http.MethodPost, "/v1/messages/"+m.id+"/cancel", app.Map{})
	switch status {
	case http.StatusOK:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.canceled = append(s.canceled, m.id)
	case http.StatusConflict:
	default:
		s.t.Errorf("a cancellation: %d %v", status, answer)
	}
}

func (s *site) pauseOrResume(r *rand.Rand, g *ground) {
	l := g.Lines[r.IntN(len(g.Lines))]
	g.mu.Lock()
	resume := g.paused[l.ID]
	g.paused[l.ID] = !resume
	g.mu.Unlock()
	s.moveLine(r, g, l.ID, resume)
}

// moveLine pauses or resumes a line; one that is not in use, or that the platform has paused, stays as it is.
func (s *site) moveLine(r *rand.Rand, g *ground, id string, resume bool) {
	path := "/v1/lines/" + id + "/pause"
	if resume {
		path = "/v1/lines/" + id + "/resume"
	}
	if status, answer := s.request(r, g.live, http.MethodPost, path, app.Map{}); status != http.StatusOK && status != http.StatusConflict {
		s.t.Errorf("%s: %d %v", path, status, answer)
	}
}

// quarantine has the operator take a line out of service and put it back, to begin anew.
func (s *site) quarantine(r *rand.Rand, g *ground) {
	l := g.Lines[r.IntN(len(g.Lines))]
	for _, to := range []string{"quarantined", "ready"} {
		s.again(r, "the operator", func(n *app.Node) error {
			return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				_, err := n.App.ChangeLineState(ctx, g.Operator(), l.ID, lineState(to), nil)
				if conflict(err) {
					return nil
				}
				return err
			})
		})
	}
}

// tell tells the receipts that are due, each through any node.
func (s *site) tell(r *rand.Rand) {
	for _, due := range s.world.Due() {
		s.again(r, "a receipt", func(n *app.Node) error {
			return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				return processes.NewReports(n.App).Receipt(ctx, due.Receipt)
			})
		})
	}
}
