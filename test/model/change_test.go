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

// rarely changes what sending goes by.
func (s *site) rarely(r *rand.Rand, g *ground, p *person) {
	if m, found := s.lately(r); found && r.IntN(2) == 0 { // for whom something may wait
		g, p = m.ground, m.person
	}
	pick := r.IntN(11)
	if pick%2 == 0 && pick < 4 {
		g, p = s.underway(g, p)
	}
	switch pick {
	case 0, 1:
		s.erase(r, g, p)
	case 2, 3:
		s.renumber(r, g, p)
	case 4:
		s.limit(r, g)
	case 5:
		s.quieten(r, g)
	case 6:
		if r.IntN(3) > 0 { // little is accepted then
			s.requireConsent(r, g)
		}
	case 7:
		s.pauseOrganisation(r, g)
	case 8:
		s.rotate(r, g)
	case 9:
		s.rehang(r, g)
	case 10:
		s.bind(r, g)
	}
}

// underway is somebody to whom a message is under way that hangs, or else this one.
func (s *site) underway(g *ground, p *person) (*ground, *person) {
	hanging := s.world.Hanging()
	for _, other := range s.grounds {
		for _, somebody := range other.people {
			if k := somebody.now(); k.id != "" && slices.Contains(hanging, k.phone) {
				return other, somebody
			}
		}
	}
	return g, p
}

// take takes the first of what is to be changed back.
func (b *business) take(n int) []func(*rand.Rand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.undo))
	first := b.undo[:n:n]
	b.undo = b.undo[n:]
	return first
}

func (b *business) later(undo func(*rand.Rand)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.undo = append(b.undo, undo)
}

// limit lowers or raises the limits of an organisation, or puts them back.
func (s *site) limit(r *rand.Rand, g *ground) {
	l := limits()
	if r.IntN(3) > 0 {
		l.NewContactsPerHour, l.NewContactsPerDay, l.SendsPerDay = 3+r.IntN(10), 5+r.IntN(24), 30+r.IntN(90)
		l.NewContactWindowDays, l.IdenticalTextMaxPerDay, l.PreReplyMaxMessages = 1+r.IntN(5), 2+r.IntN(9), 1+r.IntN(5)
	}
	s.operate(r, func(ctx context.Context, a *commands.App) error {
		_, err := a.SetSendingLimits(ctx, g.Operator(), l)
		return err
	})
}

// quieten gives an organisation quiet hours of its own, for a while. With the last of them there is no time for a
// number that may be on either coast.
func (s *site) quieten(r *rand.Rand, g *ground) {
	own := []events.QuietHours{{Start: "19:00", End: "10:00"}, {Start: "17:30", End: "11:15"}, {Start: "13:00", End: "11:00"}}[r.IntN(3)]
	s.comply(r, g, organisation.ComplianceChange{QuietHours: &own}, organisation.ComplianceChange{QuietHours: &events.QuietHours{}})
}

// requireConsent switches the need for an opt-in on, for a while.
func (s *site) requireConsent(r *rand.Rand, g *ground) {
	yes, no := true, false
	s.comply(r, g, organisation.ComplianceChange{RequireConsent: &yes}, organisation.ComplianceChange{RequireConsent: &no})
}

func (s *site) comply(r *rand.Rand, g *ground, to, back organisation.ComplianceChange) {
	set := func(r *rand.Rand, c organisation.ComplianceChange) {
		s.operate(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.SetCompliance(ctx, g.Operator(), c)
			return err
		})
	}
	set(r, to)
	g.business.later(func(r *rand.Rand) { set(r, back) })
}

// pauseOrganisation pauses an organisation, for a while.
func (s *site) pauseOrganisation(r *rand.Rand, g *ground) {
	s.operate(r, func(ctx context.Context, a *commands.App) error {
		_, err := a.PauseOrganisation(ctx, g.Operator(), "test")
		return err
	})
	g.business.later(func(r *rand.Rand) {
		s.operate(r, func(ctx context.Context, a *commands.App) error {
			_, err := a.ResumeOrganisation(ctx, g.Operator())
			return err
		})
	})
}

// rotate switches the rotation of a pool.
func (s *site) rotate(r *rand.Rand, g *ground) {
	s.change(r, g, http.MethodPatch, "/v1/pools/"+g.pools[r.IntN(len(g.pools))], app.Map{"rotation": []string{"sticky", "round_robin"}[r.IntN(2)]})
}

// rehang moves a line to another pool, or out of all.
func (s *site) rehang(r *rand.Rand, g *ground) {
	in := app.Map{"pool_id": nil}
	if r.IntN(8) > 0 {
		in["pool_id"] = g.pools[r.IntN(len(g.pools))]
	}
	s.change(r, g, http.MethodPatch, "/v1/lines/"+g.Lines[r.IntN(len(g.Lines))].ID, in)
}

// bind changes what a service identity may do.
func (s *site) bind(r *rand.Rand, g *ground) {
	in := app.Map{}
	if r.IntN(2) == 0 {
		in["daily_limit"] = []any{1, 3, 6, nil}[r.IntN(4)]
	} else {
		lines := []string{}
		for range r.IntN(4) {
			lines = append(lines, g.Lines[r.IntN(len(g.Lines))].ID)
		}
		in["allowed_line_ids"] = lines
	}
	s.change(r, g, http.MethodPatch, "/v1/service-identities/"+g.identities[r.IntN(len(g.identities))].String(), in)
}

// erase deletes a contact. Who writes to the number again makes another one.
func (s *site) erase(r *rand.Rand, g *ground, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.now()
	if k.id == "" {
		return
	}
	p.is.Lock()
	p.erased[k.id] = true
	p.known = known{phone: k.phone}
	p.is.Unlock()
	if s.change(r, g, http.MethodDelete, "/v1/contacts/"+k.id, nil) {
		s.end(model.End{What: "erasure", ContactID: k.id, Automatic: true})
		return
	}
	p.is.Lock()
	delete(p.erased, k.id)
	p.is.Unlock()
	p.met(k)
}

// renumber gives a contact another number, now and then the one that it had before. What holds for its consent then,
// the load does not follow.
func (s *site) renumber(r *rand.Rand, g *ground, p *person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, to := p.now(), p.other
	if k.id == "" || p.fixed {
		return
	}
	if to == "" || r.IntN(2) == 0 {
		to = fmt.Sprintf("%s7774%03d", k.phone[:5], s.numbers.Add(1))
	} else {
		s.lift(p.left)
	}
	s.lift(p.out)
	p.out = 0
	if !s.change(r, g, http.MethodPatch, "/v1/contacts/"+k.id, app.Map{"phone": to}, "conflict") {
		return
	}
	p.left = s.end(model.End{What: "change of number", ContactID: k.id, To: k.phone, Automatic: true})
	p.is.Lock()
	defer p.is.Unlock()
	p.known = known{to, k.id, k.conversation}
	p.other = k.phone
}
