package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"ledgerline/commands"
	"ledgerline/events"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
	"ledgerline/test/app"
	"ledgerline/test/model"
)

// act does one thing that people do; true when it was a message that was accepted.
func (s *site) act(r *rand.Rand) bool {
	g := s.grounds[r.IntN(len(s.grounds))]
	p := g.people[r.IntN(len(g.people))]
	if r.IntN(15) == 0 {
		for _, undo := range g.business.take(1) {
			undo(r)
		}
	}
	switch pick := r.IntN(1000); {
	case pick < 110:
		s.inbound(r, g, p, chatter[r.IntN(len(chatter))])
	case pick < 122:
		s.optOut(r, p, func() bool {
			return s.inbound(r, g, p, []string{"STOP", "Stop.", "unsubscribe", "«Arrêt»"}[r.IntN(4)])
		})
	case pick < 132:
		s.optOut(r, p, func() bool {
			id := p.now().id
			return id != "" && s.change(r, g, http.MethodPost, "/v1/contacts/"+id+"/opt-out", app.Map{"source": "by phone"})
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
	case pick < 250:
		s.rarely(r, g, p)
	case pick < 290:
		return s.reply(r, g, p)
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
	token, in, own := g.live, app.Map{"body": body(r)}, false
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
	if token == g.live && r.IntN(100) < 5 {
		token, own = g.tokens[r.IntN(len(g.tokens))], true
	}
	k := p.now()
	if k.id != "" && token != g.test && r.IntN(3) == 0 {
		in["contact_id"] = k.id
	} else {
		in["to"] = k.phone
	}
	path := "/v1/messages"
	if dry {
		path += "?dry_run=true"
	}
	status, answer, code := s.request(r, g, token, http.MethodPost, path, in)
	if dry && status == http.StatusOK || own && in["line_id"] != nil && code == "forbidden" {
		return false
	}
	return s.accepted(g, p, k, in["contact_id"] != nil, status, answer, code)
}

// reply has a person, or a program, answer in a conversation.
func (s *site) reply(r *rand.Rand, g *ground, p *person) bool {
	k := p.now()
	if k.id == "" {
		return false
	}
	token := s.session(g)
	if r.IntN(4) == 0 {
		token = g.live
	}
	status, answer, code := s.request(r, g, token, http.MethodPost, "/v1/conversations/"+k.conversation+"/messages", app.Map{"body": body(r)})
	return s.accepted(g, p, k, true, status, answer, code)
}

// accepted takes the answer to a message; false when it was refused as it may be. byID tells that the contact was named
// by its id.
func (s *site) accepted(g *ground, p *person, k known, byID bool, status int, answer app.Map, code string) bool {
	switch {
	case code == "contact_opted_out", code == "consent_required", code == "org_paused", code == "not_found" && byID && p.was(k.id):
		return false
	case status != http.StatusCreated || answer["status"] != "queued":
		s.t.Errorf("a message: %d %v", status, answer)
		return false
	}
	text := func(name string) string { value, _ := answer[name].(string); return value }
	if !byID {
		p.met(known{k.phone, text("contact_id"), text("conversation_id")})
	}
	media, _ := answer["media"].([]any)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Accepted[text("id")] = events.MessagePersonal{To: text("to"), Body: text("body"), Media: make([]events.Media, len(media))}
	s.recent = append(s.recent, sent{g, p, text("id")})
	return true
}

// inbound plays a message of a person's, told once or twice.
func (s *site) inbound(r *rand.Rand, g *ground, p *person, text string) bool {
	in := carrier.Inbound{CarrierID: fmt.Sprintf("in_%x", r.Uint64()), LinePhone: g.Lines[r.IntN(len(g.Lines))].Phone, From: p.now().phone, Body: text, Channel: "chat"}
	var first string
	for range 1 + r.IntN(10)/7 {
		s.again(r, "a message from a contact", func(n *app.Node) error {
			return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				id, err := processes.NewInbox(n.App).Message(ctx, in)
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

// end remembers that something was answered after which nothing may leave, and gives its place among all, from 1.
func (s *site) end(e model.End) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Answered = s.world.Tick()
	s.ends = append(s.ends, e)
	return len(s.ends)
}

// lift says that an end may be over from now on; 0 is none.
func (s *site) lift(place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place > 0 {
		s.ends[place-1].Until = s.world.Tick()
	}
}

// optOut has a person opt out, in one way or another, and remembers when that was answered.
func (s *site) optOut(r *rand.Rand, p *person, do func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out > 0 && r.IntN(4) > 0 || !do() || p.out > 0 || p.now().id == "" {
		return
	}
	p.out = s.end(model.End{What: "opt-out", ContactID: p.now().id})
}

// optIn has a person opt in, or takes back what is known of its consent: the register of opt-outs still counts then.
func (s *site) optIn(r *rand.Rand, g *ground, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.now().id
	if id == "" && p.out == 0 || p.out == 0 && r.IntN(4) > 0 {
		return
	}
	to := "opted_in"
	if r.IntN(10) == 0 && !p.shared { // else the opt-in of another workspace would let messages go
		to = "unknown"
	}
	if p.out > 0 && to == "opted_in" {
		s.lift(p.out)
		p.out = 0
	}
	if to == "opted_in" && r.IntN(2) == 0 || id == "" {
		s.inbound(r, g, p, []string{"START", "Yes!", "unstop"}[r.IntN(3)])
		return
	}
	s.change(r, g, http.MethodPost, "/v1/contacts/"+id+"/consent", app.Map{"status": to, "source": "web form"})
}

// lately is a message that was accepted not long ago.
func (s *site) lately(r *rand.Rand) (m sent, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recent) == 0 {
		return m, false
	}
	return s.recent[max(0, len(s.recent)-1-r.IntN(60))], true
}

func (s *site) cancel(r *rand.Rand) {
	m, found := s.lately(r)
	if !found {
		return
	}
	path := "/v1/messages/" + m.id + "/cancel"
	switch status, answer, code := s.request(r, m.ground, m.ground.live, http.MethodPost, path, app.Map{}); {
	case status == http.StatusOK:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.canceled = append(s.canceled, m.id)
	case code == "conflict", code == "org_paused", code == "not_found" && m.person.was(""):
	default:
		s.t.Errorf("%s: %d %v", path, status, answer)
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
	s.change(r, g, http.MethodPost, path, app.Map{}, "conflict")
}

// quarantine has the operator take a line out of service and put it back, to begin anew.
func (s *site) quarantine(r *rand.Rand, g *ground) {
	l := g.Lines[r.IntN(len(g.Lines))]
	for _, to := range []string{"quarantined", "ready"} {
		s.operate(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.ChangeLineState(ctx, g.Operator(), l.ID, lineState(to), nil)
			if conflict(err) {
				return nil
			}
			return err
		})
	}
}

// tell tells the receipts that are due, each through any node.
func (s *site) tell(r *rand.Rand) {
	for _, due := range s.world.TakeDueReceipts() {
		s.again(r, "a receipt", func(n *app.Node) error {
			return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				return processes.NewInbox(n.App).Receipt(ctx, due.Receipt)
			})
		})
	}
}
