package sending

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/fault"
	"ledgerline/domain/identity"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/domain/phone"
	"ledgerline/domain/rules"
)

// departure is all that is looked at when a message is about to leave.
type departure struct {
	unit       *unit
	contact    *engine.Aggregate[contact.Contact]
	number     engine.Number
	exchange   *engine.Aggregate[exchange.Exchange]
	sender     *engine.Aggregate[identity.Identity] // nil unless a service identity sends it
	lines      map[string]*engine.Aggregate[line.Line]
	seen       []*engine.Aggregate[line.Line] // all that were looked at, also those that cannot send
	group      string                         // line or pool whose room is waited for
	pool       []*engine.Aggregate[line.Line] // lines of the pool, when that is the group
	others     []Queue                        // whose room would do as well, or would if lines change
	stickyGone bool                           // the contact's own line will not send again
	facts      rules.Facts
}

// departure gathers the facts about a message; nil when its contact is gone.
func (u *unit) departure(ctx context.Context, m *message.Message) (*departure, error) {
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.ContactID)
	if err != nil {
		return nil, err
	}
	if !c.State.Exists() {
		return nil, nil //nolint:nilnil // the contact is gone, which is an answer
	}
	num, err := u.NumberByHash(ctx, c.State.NumberHash)
	if err != nil {
		return nil, err
	}
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(m.ContactID))
	if err != nil {
		return nil, err
	}
	return u.depart(ctx, m, c, num, x)
}

// depart is departure for a contact that is known already.
func (u *unit) depart(ctx context.Context, m *message.Message, c *engine.Aggregate[contact.Contact], num engine.Number, x *engine.Aggregate[exchange.Exchange]) (*departure, error) {
	org, err := u.Organisation(ctx)
	if err != nil {
		return nil, err
	}
	d := &departure{unit: u, contact: c, number: num, exchange: x, lines: map[string]*engine.Aggregate[line.Line]{}}
	limits := org.State.Limits()
	d.facts = rules.Facts{
		Moment: rules.Leaving, Now: u.Now, Consent: c.State.Consent, Registered: num.State.OptedOut,
		RequireConsent: org.State.Settings.RequireConsent, Paused: org.State.Paused, Automatic: m.Automatic != "", Confirmation: m.Automatic == message.OptOutConfirmation, ByHand: m.ByStaff, HoldEnds: m.DeferralExpiresAt(),
		Window: rules.WindowOf(org.State.Settings.QuietHours), Replied: x.State.Replied, Earlier: x.State.MessagesBeforeReply, Counted: m.LineID != "",
		Body: m.Content.Body, Media: len(m.Content.Media), Limits: &limits, ContactID: m.ContactID, NamedLineID: deref(m.RequestedLineID),
	}
	if m.Deferred != nil {
		d.facts.HeldFor = m.Deferred.Reason
	}
	if !d.facts.Automatic { // nothing else asks for them
		if d.facts.Zones, err = u.sender.zonesOf(m.Content.To); err != nil {
			return nil, err
		}
	}
	if err := d.identity(ctx, m); err != nil {
		return nil, err
	}
	err = d.candidates(ctx, m)
	return d, err
}

// identity adds what holds for the service identity that sends the message.
func (d *departure) identity(ctx context.Context, m *message.Message) error {
	if m.IdentityID == nil {
		return nil
	}
	id, err := uuid.Parse(*m.IdentityID)
	if err != nil {
		return fmt.Errorf("commands: a message's identity: %w", err)
	}
	i, err := engine.Load(ctx, d.unit.Unit, d.unit.Engine.Identities, identity.Stream(id))
	if err != nil {
		return err
	}
	d.sender = i
	if i.State.DailyLimit != nil {
		limit := int(*i.State.DailyLimit)
		d.facts.IdentityLimit = &limit
		switch u := d.unit; {
		case u.nothingUsed:
		case u.dryRun:
			d.facts.IdentityUsed, err = u.sender.usages.presentOfIdentity(ctx, *m.IdentityID, line.DayOf(u.Now))
		default:
			d.facts.IdentityUsed = u.sender.usages.ofIdentity(*m.IdentityID, line.DayOf(u.Now))
		}
	}
	return err
}

// allowedLines tells from which lines a service identity sends; anybody else sends from all.
func (u *unit) allowedLines(ctx context.Context, identityID *string) (func(lineID string) bool, error) {
	if identityID == nil {
		return func(string) bool { return true }, nil
	}
	id, err := uuid.Parse(*identityID)
	if err != nil {
		return nil, fmt.Errorf("commands: a message's identity: %w", err)
	}
	i, err := engine.Load(ctx, u.Unit, u.Engine.Identities, identity.Stream(id))
	if err != nil {
		return nil, err
	}
	return i.State.MaySendFrom, nil
}

// leanLines makes the append depend on the lines being as they were seen: a message that waits for one is not looked at
// again before that line changes.
func (d *departure) leanLines() {
	for _, l := range d.seen {
		l.Guard()
	}
}

// allows tells whether the sender may use a line.
func (d *departure) allows(lineID string) bool {
	return d.sender == nil || d.sender.State.MaySendFrom(lineID)
}

// zonesOf gives the zones that a number may be in.
func (s *Sender) zonesOf(e164 string) ([]*time.Location, error) {
	names := phone.TimeZones(e164)
	zones := make([]*time.Location, len(names))
	for i, name := range names {
		zone, known := s.zones.Get(name)
		if !known {
			var err error
			if zone, err = time.LoadLocation(name); err != nil {
				return nil, &fault.Fault{Code: fault.Internal, Message: "A time zone is not known here.", Cause: err}
			}
			s.zones.Add(name, zone)
		}
		zones[i] = zone
	}
	return zones, nil
}

// candidates are the lines that may take the message (decisions section 8): the one that was named; for test traffic the
// sandbox line; the contact's own when the pool is sticky and that line can send; else all lines of the pool. A line
// that the message was given to already comes first, as long as it can send.
func (d *departure) candidates(ctx context.Context, m *message.Message) error {
	if m.LineID != "" {
		l, err := d.line(ctx, m.LineID)
		if err != nil {
			return err
		}
		if l.State.CanSend() {
			d.group = m.LineID
			return d.offer(ctx, m, l)
		}
		l.Guard() // it came first
		d.wouldDo(l, true)
	}
	lines, err := d.linesFor(ctx, m)
	if err != nil {
		return err
	}
	return d.offer(ctx, m, lines...)
}

// line looks at a line. The append depends on the one that is chosen, and on those that were passed over though they come first;
// how much the others of a pool are used only says which of them is best.
func (d *departure) line(ctx context.Context, id string) (*engine.Aggregate[line.Line], error) {
	l, err := engine.Peek(ctx, d.unit.Unit, d.unit.Engine.Lines, id)
	if err == nil {
		d.seen = append(d.seen, l)
	}
	return l, err
}

// senderRetired tells that the message names a line that will not send again.
func (d *departure) senderRetired(ctx context.Context) (bool, error) {
	if d.facts.NamedLineID == "" {
		return false, nil
	}
	l, err := d.line(ctx, d.facts.NamedLineID)
	if err != nil || l.State.State != line.Retired {
		return false, err
	}
	l.Guard()
	return true, nil
}

func (d *departure) linesFor(ctx context.Context, m *message.Message) ([]*engine.Aggregate[line.Line], error) {
	named := d.facts.NamedLineID
	poolID := deref(m.PoolID)
	if named == "" && (m.IsTest || poolID == "") {
		workspace, err := engine.Load(ctx, d.unit.Unit, d.unit.Engine.Workspaces, organisation.WorkspaceStream(d.unit.Request.Workspace))
		if err != nil {
			return nil, err
		}
		if poolID == "" {
			poolID = workspace.State.DefaultPoolID
		}
		if m.IsTest {
			named = workspace.State.SandboxLineID
		}
	}
	if named != "" {
		l, err := d.line(ctx, named)
		d.group = named
		return []*engine.Aggregate[line.Line]{l}, err
	}
	pool, err := engine.Load(ctx, d.unit.Unit, d.unit.Engine.Pools, poolID)
	if err != nil {
		return nil, err
	}
	d.group = poolID
	sticky := d.contact.State.LineID
	if sticky != "" {
		own, err := d.line(ctx, sticky)
		if err != nil {
			return nil, err
		}
		d.stickyGone = own.State.OutOfService()
		inPool := d.allows(sticky) && (m.PoolID == nil || slices.Contains(pool.State.LineIDs, sticky))
		first := inPool && pool.State.Rotation == line.Sticky
		if first && own.State.CanSend() {
			d.group, d.others = sticky, append(d.others, Queue{Group: poolID})
			return []*engine.Aggregate[line.Line]{own}, nil
		}
		own.Guard() // it would come first
		if first {
			d.wouldDo(own, false)
		}
	}
	lines := make([]*engine.Aggregate[line.Line], 0, len(pool.State.LineIDs))
	for _, id := range pool.State.LineIDs {
		l, err := d.line(ctx, id)
		if err != nil {
			return nil, err
		}
		if !l.State.IsSandbox {
			lines = append(lines, l)
		}
	}
	d.pool = lines
	return lines, nil
}

// wouldDo notes a line that the message would go by, if it could send. taken tells that the message has its place there already.
func (d *departure) wouldDo(l *engine.Aggregate[line.Line], taken bool) {
	named := slices.ContainsFunc(d.others, func(o Queue) bool { return o.Group == l.State.ID })
	if !named && l.State.State != line.Retired {
		d.others = append(d.others, Queue{Group: l.State.ID, Taken: taken})
	}
}

// offer makes candidates of lines that can send.
func (d *departure) offer(ctx context.Context, m *message.Message, lines ...*engine.Aggregate[line.Line]) error {
	u := d.unit
	day := line.DayOf(u.Now)
	text := ""
	if !d.facts.ByHand && !d.facts.Automatic {
		text = u.sender.textKey(m.Content.Body)
	}
	for _, l := range lines {
		if !l.State.CanSend() || !d.allows(l.State.ID) {
			continue
		}
		c := rules.Candidate{
			Line: l.State, Taken: m.LineID == l.State.ID,
			// An answer to a word of theirs is no line's first message to them.
			New: !d.facts.Automatic && d.newTo(l),
		}
		if !c.Taken && !l.State.IsSandbox && !u.nothingUsed {
			used := u.sender.usages.of
			if u.dryRun {
				used = u.sender.usages.present
			}
			var err error
			if c.Usage, err = used(ctx, l.State.ID, u.Now, day, text); err != nil {
				return err
			}
		}
		d.lines[l.State.ID] = l
		d.facts.Candidates = append(d.facts.Candidates, c)
	}
	return nil
}

// queue is where messages of this sender wait for room on these lines. Who may use some lines only waits apart: room on the others is
// nothing to it.
func (d *departure) queue(forNew bool) *Queue {
	q := &Queue{Organisation: d.unit.Request.Organisation, Workspace: d.unit.Request.Workspace, Group: d.group, New: forNew}
	if d.sender != nil && len(d.sender.State.AllowedLineIDs) > 0 {
		q.Sender = d.sender.State.ID.String()
	}
	return q
}

// waitsIn is where the message waits, by the room that would do for it: what was asked of the rules is what was told, but for those
// who came before.
func (d *departure) waitsIn(m *message.Message, asked, told *rules.Verdict, behind bool) *Queue {
	forNew := false
	switch told.Hold.Reason {
	case rules.ReasonNewHour, rules.ReasonNewDay:
		forNew = true
	case rules.ReasonSendsDay:
		forNew = !slices.ContainsFunc(d.facts.Candidates, func(c rules.Candidate) bool { return !c.New })
	case rules.ReasonLineUnavailable: // in its turn, when one of them comes back
		forNew = slices.ContainsFunc(d.seen, func(l *engine.Aggregate[line.Line]) bool {
			return (l.State.ID == d.group || slices.Contains(d.pool, l)) && d.newTo(l)
		})
	}
	q := d.queue(forNew)
	q.Behind, q.Taken = behind, m.LineID == d.group
	if asked.Outcome == rules.Hold && rules.TextUsedUp(&d.facts) {
		q.Text = d.unit.sender.textKey(m.Content.Body)
	}
	if told.Hold.Until != nil {
		q.Until = *told.Hold.Until
	}
	q.Elsewhere = d.elsewhere(q)
	return q
}

// newTo tells whether the contact is new to a line now.
func (d *departure) newTo(l *engine.Aggregate[line.Line]) bool {
	return d.exchange.State.IsNewTo(l.State.ID, line.DayOf(d.unit.Now), d.facts.Limits.NewContactWindowDays)
}

// elsewhere are the other queues whose room would do. In one for new contacts, the lines of the pool that it is not new to, whose room
// is another one.
func (d *departure) elsewhere(q *Queue) []Queue {
	if q.New {
		for _, l := range d.pool {
			if d.allows(l.State.ID) && !d.newTo(l) {
				d.wouldDo(l, false)
			}
		}
	}
	var others []Queue
	for _, o := range d.others {
		if o.Group != q.Group {
			o.Organisation, o.Workspace, o.Sender, o.Text = q.Organisation, q.Workspace, q.Sender, q.Text
			others = append(others, o)
		}
	}
	return others
}

// maxAhead bounds how many who wait are counted for one message.
const maxAhead = 1000

// inTurn holds a message to a new contact that would pass others who wait for the same room. Where those use up what there is today,
// it waits for the day's end, whatever the hour says; so the reason stays true while it waits. behind tells that others came first.
func (d *departure) inTurn(ctx context.Context, in *Begin, v rules.Verdict) (turn rules.Verdict, behind bool, err error) {
	hold := v.Hold
	switch {
	case in.Ahead == nil || d.facts.Automatic:
		return v, false, nil
	case v.Outcome == rules.Go && v.Line.New && !v.Line.Taken && !v.Line.Line.IsSandbox:
		others, err := in.Ahead(ctx, *d.queue(true))
		if err != nil || !others {
			return v, false, err
		}
		known := d.facts // a line that it is not new to needs no turn
		known.Candidates = slices.DeleteFunc(slices.Clone(known.Candidates), func(c rules.Candidate) bool { return c.New })
		if without := rules.Check(known); without.Outcome == rules.Go {
			return without, false, nil
		}
		hold = message.Deferral{Reason: rules.ReasonNewHour, LineID: v.Line.Line.ID}
	case v.Outcome != rules.Hold || v.Hold.Reason != rules.ReasonNewHour:
		return v, false, nil
	}
	taken, err := d.dayTaken(ctx, in)
	switch {
	case err != nil:
		return v, false, err
	case taken:
		until := line.DayOf(d.unit.Now).End
		hold.Reason, hold.Until = rules.ReasonNewDay, &until
	case v.Outcome == rules.Hold:
		return v, false, nil
	}
	return rules.Expire(&d.facts, rules.Verdict{Outcome: rules.Hold, Hold: hold, Detail: map[string]any{"queued": true}}), true, nil
}

// dayTaken tells whether those who came before use up what the lines can take of new contacts today.
func (d *departure) dayTaken(ctx context.Context, in *Begin) (bool, error) {
	room := rules.NewToday(&d.facts)
	if in.Before == nil || room > maxAhead {
		return false, nil
	}
	before, err := in.Before(ctx, *d.queue(true), room)
	return before >= room, err
}
