package sending

import (
	"context"
	"slices"
	"time"

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
	"ledgerline/events"
)

// evaluation holds the aggregates and facts that the rules use to evaluate one message.
type evaluation struct {
	unit            *unit
	contact         *engine.Aggregate[contact.Contact]
	number          engine.Number
	exchange        *engine.Aggregate[exchange.Exchange]
	identity        *engine.Aggregate[identity.Identity]    // nil unless a service identity sends the message
	lines           map[string]*engine.Aggregate[line.Line] // the candidates
	readLines       []*engine.Aggregate[line.Line]          // all lines that were read, including those that cannot send
	preferred       *engine.Aggregate[line.Line]            // the line named by the request, or the contact's own line; nil when there is none
	poolID          string                                  // pool whose lines are considered after preferred; "" for none
	pool            *engine.Aggregate[line.Pool]            // nil when poolID is ""
	ownOutOfService bool                                    // the contact's own line is retired or quarantined
	facts           rules.Facts
}

// gather loads the aggregates and gathers the facts to evaluate a message; nil when its contact was erased.
func (u *unit) gather(ctx context.Context, m *message.Message) (*evaluation, error) {
	c, err := engine.Load(ctx, u.Unit, u.Engine.Contacts, m.ContactID)
	if err != nil {
		return nil, err
	}
	if !c.State.Exists() {
		return nil, nil //nolint:nilnil // there is nothing to evaluate
	}
	num, err := u.NumberByHash(ctx, c.State.NumberHash)
	if err != nil {
		return nil, err
	}
	x, err := engine.Load(ctx, u.Unit, u.Engine.Exchanges, exchange.Stream(m.ContactID))
	if err != nil {
		return nil, err
	}
	return u.gatherFor(ctx, m, c, num, x)
}

// gatherFor is gather for a contact that is loaded already.
func (u *unit) gatherFor(
	ctx context.Context, m *message.Message, c *engine.Aggregate[contact.Contact], num engine.Number,
	x *engine.Aggregate[exchange.Exchange],
) (*evaluation, error) {
	org, err := u.Organisation(ctx)
	if err != nil {
		return nil, err
	}
	d := &evaluation{unit: u, contact: c, number: num, exchange: x, lines: map[string]*engine.Aggregate[line.Line]{}}
	limits := org.State.Limits()
	d.facts = rules.Facts{
		Moment: rules.Leaving, Now: u.Now, Consent: c.State.Consent, Registered: num.State.OptedOut,
		RequireConsent: org.State.Settings.RequireConsent, Paused: org.State.Paused, Automatic: m.Automatic != "",
		Confirmation: m.Automatic == message.OptOutConfirmation, ByStaff: m.ByStaff, ExpiresAt: m.DeferralExpiresAt(),
		Window: rules.WindowOf(org.State.Settings.QuietHours), Replied: x.State.Replied,
		MessagesBeforeReply: x.State.MessagesBeforeReply, Routed: m.LineID != "" || m.ByConnection() && m.Attempt > 0, Body: m.Content.Body, Media: len(m.Content.Media),
		Limits: &limits, ContactID: m.ContactID, NamedLineID: deref(m.RequestedLineID),
	}
	if m.Deferred != nil {
		d.facts.DeferredFor = m.Deferred.Reason
	}
	if !d.facts.Automatic { // automatic texts are exempt from quiet hours
		if d.facts.Zones, err = u.sender.zonesOf(m); err != nil {
			return nil, err
		}
	}
	if err := d.readIdentity(ctx, m); err != nil {
		return nil, err
	}
	if !m.ByConnection() { // an SMS connection needs no line
		err = d.readCandidates(ctx, m)
	}
	return d, err
}

// readIdentity adds the limits of the service identity that sends the message.
func (d *evaluation) readIdentity(ctx context.Context, m *message.Message) error {
	if m.IdentityID == nil {
		return nil
	}
	i, err := d.unit.Identity(ctx, *m.IdentityID)
	if err != nil {
		return err
	}
	d.identity = i
	if i.State.DailyLimit != nil {
		limit := int(*i.State.DailyLimit)
		d.facts.IdentityLimit = &limit
		usage, today := d.unit.sender.usage, line.DayOf(d.unit.Now)
		switch u := d.unit; {
		case u.nothingUsed:
		case u.dryRun:
			d.facts.IdentityUsed, err = usage.identityOn(ctx, *m.IdentityID, today)
		default:
			d.facts.IdentityUsed = usage.cachedIdentityUse(*m.IdentityID, today)
		}
	}
	return err
}

// guardLines guards all lines that were read. A message that is deferred for lines is evaluated again only when one of
// them changes, so a change between this read and the append must make the append fail.
func (d *evaluation) guardLines() {
	for _, l := range d.readLines {
		l.Guard()
	}
}

// allows reports whether the sender may use a line.
func (d *evaluation) allows(lineID string) bool {
	return d.identity == nil || d.identity.State.MaySendFrom(lineID)
}

// isNewTo reports whether the contact is new to a line on this usage day (rule SND-45).
func (d *evaluation) isNewTo(lineID string) bool {
	return d.exchange.State.IsNewTo(lineID, line.DayOf(d.unit.Now), d.facts.Limits.NewContactWindowDays)
}

// zonesOf returns the time zones in which the number that a message goes to may be (rule SND-11), or the zone in which
// a sandbox message is played (rule SND-63).
func (s *Sender) zonesOf(m *message.Message) ([]*time.Location, error) {
	if m.SandboxOffset != nil {
		return []*time.Location{time.FixedZone("sandbox", *m.SandboxOffset)}, nil
	}
	return s.zonesOfNumber(m.Content.To)
}

func (s *Sender) zonesOfNumber(e164 string) ([]*time.Location, error) {
	names := phone.TimeZones(e164)
	zones := make([]*time.Location, len(names))
	for i, name := range names {
		zone, known := s.zones.Get(name)
		if !known {
			var err error
			if zone, err = time.LoadLocation(name); err != nil {
				return nil, &fault.Fault{Code: fault.Internal, Message: "The server does not know a time zone of the phone number.", Cause: err}
			}
			s.zones.Add(name, zone)
		}
		zones[i] = zone
	}
	return zones, nil
}

// readCandidates reads the lines that may take the message, in the order of rule SND-40. The line that the message was
// routed to comes first, while it can send (rule SND-44).
func (d *evaluation) readCandidates(ctx context.Context, m *message.Message) error {
	if m.LineID != "" {
		l, err := d.line(ctx, m.LineID)
		if err != nil {
			return err
		}
		if l.State.CanSend() {
			return d.addCandidates(ctx, m, l)
		}
		l.Guard() // if this line could send, it would be chosen
	}
	lines, err := d.linesFor(ctx, m)
	if err != nil {
		return err
	}
	return d.addCandidates(ctx, m, lines...)
}

// line reads a line without a guard. The caller guards the line that is chosen, and lines with precedence over it that
// cannot send. Other lines of a pool need no guard: their usage only decides which line is the best choice.
func (d *evaluation) line(ctx context.Context, id string) (*engine.Aggregate[line.Line], error) {
	l, err := engine.Peek(ctx, d.unit.Unit, d.unit.Engine.Lines, id)
	if err == nil {
		d.readLines = append(d.readLines, l)
	}
	return l, err
}

// namedLineRetired reports whether the message names a line that will never send again (rule SND-38).
func (d *evaluation) namedLineRetired(ctx context.Context) (bool, error) {
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

func (d *evaluation) linesFor(ctx context.Context, m *message.Message) ([]*engine.Aggregate[line.Line], error) {
	named := d.facts.NamedLineID
	poolID := deref(m.PoolID)
	if named == "" && (m.IsTest || poolID == "") {
		stream := organisation.WorkspaceStream(d.unit.Request.Workspace)
		workspace, err := engine.Load(ctx, d.unit.Unit, d.unit.Engine.Workspaces, stream)
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
		d.preferred = l
		return []*engine.Aggregate[line.Line]{l}, err
	}
	pool, err := engine.Load(ctx, d.unit.Unit, d.unit.Engine.Pools, poolID)
	if err != nil {
		return nil, err
	}
	d.poolID, d.pool = poolID, pool
	if own := d.contact.State.LineID; own != "" {
		l, err := d.line(ctx, own)
		if err != nil {
			return nil, err
		}
		d.ownOutOfService = l.State.OutOfService()
		inPool := m.PoolID == nil || slices.Contains(pool.State.LineIDs, own)
		if d.allows(own) && inPool && pool.State.Rotation == line.Sticky {
			d.preferred = l
			if l.State.CanSend() {
				return []*engine.Aggregate[line.Line]{l}, nil
			}
		}
		l.Guard() // if this line could send, it would be chosen
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
	return lines, nil
}

// addCandidates adds the lines that can send and that the sender may use to the candidates.
func (d *evaluation) addCandidates(ctx context.Context, m *message.Message, lines ...*engine.Aggregate[line.Line]) error {
	u := d.unit
	day := line.DayOf(u.Now)
	usage := u.sender.usage.cached
	if u.dryRun {
		usage = u.sender.usage.fromLedger
	}
	for _, l := range lines {
		if !l.State.CanSend() || !d.allows(l.State.ID) {
			continue
		}
		c := rules.Candidate{
			Line: l.State, Reserved: m.LineID == l.State.ID,
			New: !d.facts.Automatic && d.isNewTo(l.State.ID), // an automatic text does not count as a line's first message
		}
		if !c.Reserved && !l.State.IsSandbox && !u.nothingUsed {
			var err error
			if c.Usage, err = usage(ctx, l.State.ID, u.Now, day, d.textHash(m)); err != nil {
				return err
			}
		}
		d.lines[l.State.ID] = l
		d.facts.Candidates = append(d.facts.Candidates, c)
	}
	return nil
}

// textHash returns the hash under which the message counts toward the limit of identical texts; "" when the limit does
// not apply to it (rule SND-46).
func (d *evaluation) textHash(m *message.Message) string {
	if d.facts.ByStaff || d.facts.Automatic {
		return ""
	}
	return d.unit.sender.textHash(m.Content.Body)
}

// wanted returns the capacity that the message waits for; nil when the message was routed to a line that can send,
// because its capacity is reserved already. limitedByText states that lines have capacity, but not for this text.
func (d *evaluation) wanted(m *message.Message, limitedByText bool) *events.WantedCapacity {
	if d.preferred == nil && d.pool == nil {
		return nil
	}
	w := &events.WantedCapacity{PoolID: d.poolID}
	if d.preferred != nil {
		w.LineID = d.preferred.State.ID
		w.NewContact = d.isNewTo(w.LineID)
	}
	if d.pool != nil {
		for _, id := range d.pool.State.LineIDs {
			if !d.isNewTo(id) {
				w.KnownLineIDs = append(w.KnownLineIDs, id)
			}
		}
		slices.Sort(w.KnownLineIDs)
	}
	if d.identity != nil && len(d.identity.State.AllowedLineIDs) > 0 {
		w.IdentityID = d.identity.State.ID.String()
	}
	if limitedByText {
		w.TextHash = d.textHash(m)
	}
	return w
}

// Queue is the capacity queue from the view of one message. Its methods consider only entries that may use capacity now
// and whose position is before that of the message.
type Queue interface {
	// Blocked returns the subset of the lines whose capacity for new contacts an earlier entry may use.
	Blocked(ctx context.Context, lineIDs []string) (map[string]bool, error)
	// CountBefore counts the earlier entries that may use the capacity for new contacts of at least one of the lines. It
	// stops counting at most.
	CountBefore(ctx context.Context, lineIDs []string, most int) (int, error)
}

// maxCounted bounds how many earlier queue entries are counted for one message.
const maxCounted = 1000

// keepOrder defers a message to a new contact that would overtake queue entries which wait for the same capacity (rule
// SND-22). When the earlier entries use up the day's capacity of the lines, the reason of the deferral is the limit of
// the day, because the limit of the hour would be wrong as soon as the hour is over. With inQueueOrder the message is
// not deferred for earlier entries: the caller evaluates the entries in FIFO order itself.
func (d *evaluation) keepOrder(ctx context.Context, q Queue, inQueueOrder bool, v rules.Verdict) (rules.Verdict, error) {
	deferral := v.Deferral
	switch {
	case q == nil || d.facts.Automatic:
		return v, nil
	case v.Decision == rules.Send && usesNew(v.Line):
		if inQueueOrder {
			return v, nil
		}
		unblocked, err := d.unblocked(ctx, q)
		if err != nil || unblocked.Decision == rules.Send {
			return unblocked, err
		}
		deferral = message.Deferral{Reason: rules.ReasonNewHour, LineID: v.Line.Line.ID}
	case v.Decision != rules.Defer || v.Deferral.Reason != rules.ReasonNewHour:
		return v, nil
	}
	usedUp, err := d.dayUsedUp(ctx, q)
	switch {
	case err != nil:
		return v, err
	case usedUp:
		until := line.DayOf(d.unit.Now).End
		deferral.Reason, deferral.Until = rules.ReasonNewDay, &until
	case v.Decision == rules.Defer:
		return v, nil
	}
	deferred := rules.Verdict{Decision: rules.Defer, Deferral: deferral, Detail: map[string]any{"queued": true}}
	return rules.Expire(&d.facts, deferred), nil
}

// usesNew reports whether a candidate needs capacity for a new contact.
func usesNew(c *rules.Candidate) bool { return c.New && !c.Reserved && !c.Line.IsSandbox }

// unblocked returns the verdict without the candidates whose capacity for new contacts earlier entries may use.
func (d *evaluation) unblocked(ctx context.Context, q Queue) (rules.Verdict, error) {
	blocked, err := q.Blocked(ctx, d.newCandidates())
	if err != nil {
		return rules.Verdict{}, err
	}
	facts := d.facts
	facts.Candidates = slices.DeleteFunc(slices.Clone(facts.Candidates), func(c rules.Candidate) bool {
		return usesNew(&c) && blocked[c.Line.ID]
	})
	return rules.Check(facts), nil
}

func (d *evaluation) newCandidates() []string {
	var ids []string
	for i := range d.facts.Candidates {
		if c := &d.facts.Candidates[i]; usesNew(c) {
			ids = append(ids, c.Line.ID)
		}
	}
	return ids
}

// dayUsedUp reports whether the earlier entries use up the candidates' capacity for new contacts of this usage day.
func (d *evaluation) dayUsedUp(ctx context.Context, q Queue) (bool, error) {
	left := rules.NewContactCapacity(&d.facts)
	if left > maxCounted {
		return false, nil
	}
	before, err := q.CountBefore(ctx, d.newCandidates(), left)
	return before >= left, err
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
