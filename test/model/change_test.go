package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"ledgerline/commands"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/test/app"
	"ledgerline/test/model"
)

// changeSomething makes one of the rarer changes: erasure, another number, limits, settings, pools, lines or
// identities.
func (s *site) changeSomething(r *rand.Rand, ws *workspace, p *person) {
	if m, found := s.recentMessage(r); found && r.IntN(2) == 0 { // a contact with a recent message, which may still wait
		ws, p = m.workspace, m.person
	}
	pick := r.IntN(11)
	if pick%2 == 0 && pick < 4 {
		ws, p = s.hangingRecipient(ws, p)
	}
	switch pick {
	case 0, 1:
		s.erase(r, ws, p)
	case 2, 3:
		s.changeNumber(r, ws, p)
	case 4:
		s.setLimits(r, ws)
	case 5:
		s.setQuietHours(r, ws)
	case 6:
		if r.IntN(3) > 0 { // less often, because most messages are refused while consent is required
			s.requireConsent(r, ws)
		}
	case 7:
		s.pauseOrganisation(r, ws)
	case 8:
		s.setRotation(r, ws)
	case 9:
		s.moveToPool(r, ws)
	case 10:
		s.changeIdentity(r, ws)
	}
}

// hangingRecipient returns a person to whom a carrier call hangs, or g and p if there is none.
func (s *site) hangingRecipient(ws *workspace, p *person) (*workspace, *person) {
	hanging := s.world.Hanging()
	for _, other := range s.workspaces {
		for _, somebody := range other.people {
			if k := somebody.current(); k.id != "" && slices.Contains(hanging, k.phone) {
				return other, somebody
			}
		}
	}
	return ws, p
}

// takeUndos removes and returns the oldest n undo functions.
func (b *org) takeUndos(n int) []func(*rand.Rand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.undo))
	first := b.undo[:n:n]
	b.undo = b.undo[n:]
	return first
}

func (b *org) addUndo(undo func(*rand.Rand)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.undo = append(b.undo, undo)
}

// setLimits lowers or raises the limits of an organisation, or restores them.
func (s *site) setLimits(r *rand.Rand, ws *workspace) {
	l := limits()
	if r.IntN(3) > 0 {
		l.NewContactsPerHour, l.NewContactsPerDay, l.SendsPerDay = 3+r.IntN(10), 5+r.IntN(24), 30+r.IntN(90)
		l.NewContactWindowDays, l.IdenticalTextMaxPerDay, l.PreReplyMaxMessages = 1+r.IntN(5), 2+r.IntN(9), 1+r.IntN(5)
	}
	s.asOperator(r, func(ctx context.Context, a *commands.App) error {
		_, err := a.SetSendingLimits(ctx, ws.Operator(), l)
		return err
	})
}

// setQuietHours gives an organisation quiet hours of its own until they are undone. The last choice leaves no common
// time for a number that may be on either coast.
func (s *site) setQuietHours(r *rand.Rand, ws *workspace) {
	own := []events.QuietHours{{Start: "19:00", End: "10:00"}, {Start: "17:30", End: "11:15"}, {Start: "13:00", End: "11:00"}}[r.IntN(3)]
	s.setCompliance(r, ws, organisation.ComplianceChange{QuietHours: &own}, organisation.ComplianceChange{QuietHours: &events.QuietHours{}})
}

// requireConsent switches require_consent on until it is undone.
func (s *site) requireConsent(r *rand.Rand, ws *workspace) {
	yes, no := true, false
	s.setCompliance(r, ws, organisation.ComplianceChange{RequireConsent: &yes}, organisation.ComplianceChange{RequireConsent: &no})
}

func (s *site) setCompliance(r *rand.Rand, ws *workspace, to, back organisation.ComplianceChange) {
	set := func(r *rand.Rand, c organisation.ComplianceChange) {
		s.asOperator(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.SetCompliance(ctx, ws.Operator(), c)
			return err
		})
	}
	set(r, to)
	ws.org.addUndo(func(r *rand.Rand) { set(r, back) })
}

// pauseOrganisation pauses an organisation until it is undone.
func (s *site) pauseOrganisation(r *rand.Rand, ws *workspace) {
	s.asOperator(r, func(ctx context.Context, a *commands.App) error {
		_, err := a.PauseOrganisation(ctx, ws.Operator(), "test")
		return err
	})
	ws.org.addUndo(func(r *rand.Rand) {
		s.asOperator(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.ResumeOrganisation(ctx, ws.Operator())
			return err
		})
	})
}

// setRotation sets the rotation of a pool.
func (s *site) setRotation(r *rand.Rand, ws *workspace) {
	s.change(r, ws, http.MethodPatch, "/v1/pools/"+ws.pools[r.IntN(len(ws.pools))], app.Map{"rotation": []string{"sticky", "round_robin"}[r.IntN(2)]})
}

// moveToPool moves a line to another pool, or removes it from its pool.
func (s *site) moveToPool(r *rand.Rand, ws *workspace) {
	in := app.Map{"pool_id": nil}
	if r.IntN(8) > 0 {
		in["pool_id"] = ws.pools[r.IntN(len(ws.pools))]
	}
	s.change(r, ws, http.MethodPatch, "/v1/lines/"+ws.Lines[r.IntN(len(ws.Lines))].ID, in)
}

// changeIdentity changes the daily limit or the lines of a service identity.
func (s *site) changeIdentity(r *rand.Rand, ws *workspace) {
	in := app.Map{}
	if r.IntN(2) == 0 {
		in["daily_limit"] = []any{1, 3, 6, nil}[r.IntN(4)]
	} else {
		lines := []string{}
		for range r.IntN(4) {
			lines = append(lines, ws.Lines[r.IntN(len(ws.Lines))].ID)
		}
		in["allowed_line_ids"] = lines
	}
	s.change(r, ws, http.MethodPatch, "/v1/service-identities/"+ws.identities[r.IntN(len(ws.identities))].String(), in)
}

// erase deletes a contact. The next message to its number creates another contact.
func (s *site) erase(r *rand.Rand, ws *workspace, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.current()
	if k.id == "" {
		return
	}
	p.knownMu.Lock()
	p.erased[k.id] = true
	p.known = known{phone: k.phone}
	p.knownMu.Unlock()
	if s.change(r, ws, http.MethodDelete, "/v1/contacts/"+k.id, nil) {
		s.addEnd(model.End{What: "erasure", ContactID: k.id, Automatic: true})
		return
	}
	p.knownMu.Lock()
	delete(p.erased, k.id)
	p.knownMu.Unlock()
	p.setContact(k)
}

// changeNumber gives a contact another number, sometimes its previous one. The load does not track the consent that
// results, so it ends the contact's opt-out in its own records.
func (s *site) changeNumber(r *rand.Rand, ws *workspace, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, to := p.current(), p.other
	if k.id == "" || p.fixed {
		return
	}
	if to == "" || r.IntN(2) == 0 {
		to = fmt.Sprintf("%s7774%03d", k.phone[:5], s.numbers.Add(1))
	}
	before := s.world.Tick() // the change may take effect at any moment from now on
	if !s.change(r, ws, http.MethodPatch, "/v1/contacts/"+k.id, app.Map{"phone": to}, "conflict") {
		return
	}
	if to == p.other {
		s.expireEnd(p.numberEnd, before)
	}
	s.expireEnd(p.optOutEnd, before)
	p.optOutEnd = 0
	p.numberEnd = s.addEnd(model.End{What: "change of number", ContactID: k.id, To: k.phone, Automatic: true})
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	p.known = known{to, k.id, k.conversation}
	p.other = k.phone
}
