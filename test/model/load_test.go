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

// act does one random action of the load. It returns true if the action was an accepted message.
func (s *site) act(r *rand.Rand) bool {
	ws := s.workspaces[r.IntN(len(s.workspaces))]
	p := ws.people[r.IntN(len(ws.people))]
	if r.IntN(15) == 0 {
		for _, undo := range ws.org.takeUndos(1) {
			undo(r)
		}
	}
	switch pick := r.IntN(1000); {
	case pick < 110:
		s.inbound(r, ws, p, chatter[r.IntN(len(chatter))])
	case pick < 122:
		s.optOut(r, p, func() bool {
			return s.inbound(r, ws, p, []string{"STOP", "Stop.", "unsubscribe", "«Arrêt»"}[r.IntN(4)])
		})
	case pick < 132:
		s.optOut(r, p, func() bool {
			id := p.current().id
			return id != "" && s.change(r, ws, http.MethodPost, "/v1/contacts/"+id+"/opt-out", app.Map{"source": "by phone"})
		})
	case pick < 165:
		s.optIn(r, ws, p)
	case pick < 170:
		s.inbound(r, ws, p, "HELP")
	case pick < 200:
		s.cancel(r)
	case pick < 212:
		s.pauseOrResume(r, ws)
	case pick < 215:
		s.quarantine(r, ws)
	case pick < 230:
		s.send(r, ws, p, true)
	case pick < 250:
		s.changeSomething(r, ws, p)
	case pick < 290:
		return s.reply(r, ws, p)
	default:
		return s.send(r, ws, p, false)
	}
	return false
}

var (
	chatter = []string{"On my way", "Who is this?", "Thanks!", "start now?", "stop it please"}
	adverts = []string{"Big sale today", " Big sale today ", "We are open again", "Your table is ready"}
)

// body returns a random message text.
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

// send posts a message, or a dry run of one. It returns true if a message was accepted.
func (s *site) send(r *rand.Rand, ws *workspace, p *person, dry bool) bool {
	token, in, own := ws.live, app.Map{"body": body(r)}, false
	now := s.clock.Now()
	switch pick := r.IntN(100); {
	case pick < 4:
		token, p = ws.test, ws.sandboxed[r.IntN(len(ws.sandboxed))]
	case pick < 12:
		in["line_id"] = ws.Lines[r.IntN(len(ws.Lines))].ID
	case pick < 45:
		in["pool_id"] = ws.pools[r.IntN(len(ws.pools))]
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
	if token == ws.live && r.IntN(100) < 5 {
		token, own = ws.tokens[r.IntN(len(ws.tokens))], true
	}
	k := p.current()
	if k.id != "" && token != ws.test && r.IntN(3) == 0 {
		in["contact_id"] = k.id
	} else {
		in["to"] = k.phone
	}
	path := "/v1/messages"
	if dry {
		path += "?dry_run=true"
	}
	status, answer, code := s.request(r, ws, token, http.MethodPost, path, in)
	if dry && status == http.StatusOK || own && in["line_id"] != nil && code == "forbidden" {
		return false
	}
	return s.accepted(ws, p, k, in["contact_id"] != nil, status, answer, code)
}

// reply posts a message in a conversation, with a user's session or with an API key.
func (s *site) reply(r *rand.Rand, ws *workspace, p *person) bool {
	k := p.current()
	if k.id == "" {
		return false
	}
	token := s.session(ws)
	if r.IntN(4) == 0 {
		token = ws.live
	}
	status, answer, code := s.request(r, ws, token, http.MethodPost, "/v1/conversations/"+k.conversation+"/messages", app.Map{"body": body(r)})
	return s.accepted(ws, p, k, true, status, answer, code)
}

// accepted records an accepted message. It returns false for a refusal, and fails the test if the refusal is not an
// expected one. byID says that the request named the contact by id.
func (s *site) accepted(ws *workspace, p *person, k known, byID bool, status int, answer app.Map, code string) bool {
	switch {
	case code == "contact_opted_out", code == "consent_required", code == "org_paused", code == "not_found" && byID && p.wasErased(k.id):
		return false
	case status != http.StatusCreated || answer["status"] != "queued":
		s.t.Errorf("a message: %d %v", status, answer)
		return false
	}
	text := func(name string) string { value, _ := answer[name].(string); return value }
	if !byID {
		p.setContact(known{k.phone, text("contact_id"), text("conversation_id")})
	}
	media, _ := answer["media"].([]any)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.Accepted[text("id")] = events.MessagePersonal{To: text("to"), Body: text("body"), Media: make([]events.Media, len(media))}
	s.recent = append(s.recent, sentMessage{ws, p, text("id")})
	return true
}

// inbound reports a message from a person, sometimes twice, and checks that both reports get the same id.
func (s *site) inbound(r *rand.Rand, ws *workspace, p *person, text string) bool {
	in := carrier.Inbound{CarrierID: fmt.Sprintf("in_%x", r.Uint64()), LinePhone: ws.Lines[r.IntN(len(ws.Lines))].Phone, From: p.current().phone, Body: text, Channel: "chat"}
	var first string
	for range 1 + r.IntN(10)/7 {
		s.retry(r, "a message from a contact", func(n *app.Node) error {
			return onNode(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
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

// addEnd records an answered request after which nothing may leave. It returns its index in s.ends, from 1.
func (s *site) addEnd(e model.End) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Answered = s.world.Tick()
	s.ends = append(s.ends, e)
	return len(s.ends)
}

// expireEnd records that the End with this index may not apply from a tick on; 0 is none.
func (s *site) expireEnd(index int, from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index > 0 {
		s.ends[index-1].Until = from
	}
}

// optOut calls do, which opts a person out, and records when that was answered.
func (s *site) optOut(r *rand.Rand, p *person, do func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.optOutEnd > 0 && r.IntN(4) > 0 || !do() || p.optOutEnd > 0 || p.current().id == "" {
		return
	}
	p.optOutEnd = s.addEnd(model.End{What: "opt-out", ContactID: p.current().id})
}

// optIn opts a person in, or sets its consent to unknown. The register of opt-outs stays in force with unknown.
func (s *site) optIn(r *rand.Rand, ws *workspace, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.current().id
	if id == "" && p.optOutEnd == 0 || p.optOutEnd == 0 && r.IntN(4) > 0 {
		return
	}
	to := "opted_in"
	if r.IntN(10) == 0 && !p.shared { // with a shared number, the opt-in of another workspace would allow messages
		to = "unknown"
	}
	if p.optOutEnd > 0 && to == "opted_in" {
		s.expireEnd(p.optOutEnd, s.world.Tick())
		p.optOutEnd = 0
	}
	if to == "opted_in" && r.IntN(2) == 0 || id == "" {
		s.inbound(r, ws, p, []string{"START", "Yes!", "unstop"}[r.IntN(3)])
		return
	}
	s.change(r, ws, http.MethodPost, "/v1/contacts/"+id+"/consent", app.Map{"status": to, "source": "web form"})
}

// recentMessage returns one of the last 60 accepted messages.
func (s *site) recentMessage(r *rand.Rand) (m sentMessage, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recent) == 0 {
		return m, false
	}
	return s.recent[max(0, len(s.recent)-1-r.IntN(60))], true
}

func (s *site) cancel(r *rand.Rand) {
	m, found := s.recentMessage(r)
	if !found {
		return
	}
	path := "/v1/messages/" + m.id + "/cancel"
	switch status, answer, code := s.request(r, m.workspace, m.workspace.live, http.MethodPost, path, app.Map{}); {
	case status == http.StatusOK:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.canceled = append(s.canceled, m.id)
	case code == "conflict", code == "org_paused", code == "not_found" && m.person.wasErased(""):
	default:
		s.t.Errorf("%s: %d %v", path, status, answer)
	}
}

func (s *site) pauseOrResume(r *rand.Rand, ws *workspace) {
	l := ws.Lines[r.IntN(len(ws.Lines))]
	ws.mu.Lock()
	resume := ws.paused[l.ID]
	ws.paused[l.ID] = !resume
	ws.mu.Unlock()
	s.moveLine(r, ws, l.ID, resume)
}

// moveLine pauses or resumes a line. A conflict is expected for a line that is not in use or that the service paused.
func (s *site) moveLine(r *rand.Rand, ws *workspace, id string, resume bool) {
	path := "/v1/lines/" + id + "/pause"
	if resume {
		path = "/v1/lines/" + id + "/resume"
	}
	s.change(r, ws, http.MethodPost, path, app.Map{}, "conflict")
}

// quarantine quarantines a line and makes it ready again, which starts its warm-up anew.
func (s *site) quarantine(r *rand.Rand, ws *workspace) {
	l := ws.Lines[r.IntN(len(ws.Lines))]
	for _, to := range []string{"quarantined", "ready"} {
		s.asOperator(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.ChangeLineState(ctx, ws.Operator(), l.ID, lineState(to), nil)
			if conflict(err) {
				return nil
			}
			return err
		})
	}
}

// sendReceipts reports the receipts that are due, each through a random node.
func (s *site) sendReceipts(r *rand.Rand) {
	for _, due := range s.world.TakeDueReceipts() {
		s.retry(r, "a receipt", func(n *app.Node) error {
			return onNode(s.t.Context(), n, func(ctx context.Context, n *app.Node) error {
				return processes.NewInbox(n.App).Receipt(ctx, due.Receipt)
			})
		})
	}
}
