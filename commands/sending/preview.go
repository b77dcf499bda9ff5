package sending

import (
	"context"
	"time"

	"ledgerline/commands/engine"
	"ledgerline/domain/contact"
	"ledgerline/domain/exchange"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/rules"
)

// Preview is the result of a dry run of a message.
type Preview struct {
	Decision  rules.Decision
	Code      string         // with Refuse: the error code
	Reason    string         // with Defer: the rule that would defer it
	Until     *time.Time     // with Defer: until when, as far as that is known
	At        time.Time      // with Send: when it would leave
	Detail    map[string]any // details of the rule
	Line      *line.Line     // the line that would send it, or whose capacity it would wait for
	ContactID string         // "" when no contact has the number
	To        string         // E.164
}

// Preview evaluates the rules for a message as if its attempt began at a given time, and writes nothing. It does not
// consider earlier messages that wait, neither of the contact nor in the capacity queue.
func (s *Sender) Preview(
	ctx context.Context, eu *engine.Unit, at time.Time, m *message.Message, c *engine.Aggregate[contact.Contact], num engine.Number,
) (Preview, error) {
	p := Preview{At: at}
	u := &unit{Unit: eu, sender: s, dryRun: true}
	x, err := engine.Load(ctx, eu, s.engine.Exchanges, exchange.Stream(c.State.ID))
	if err != nil {
		return p, err
	}
	today := line.DayOf(u.Now)
	u.Now, u.nothingUsed = at, line.DayOf(at).Date != today.Date
	d, err := u.gatherFor(ctx, m, c, num, x)
	if err != nil {
		return p, err
	}
	v := rules.Check(d.facts)
	p.Decision, p.Code, p.Reason, p.Until, p.Detail = v.Decision, v.Code, v.Deferral.Reason, v.Deferral.Until, v.Detail
	lineID := v.Deferral.LineID
	if v.Line != nil {
		lineID = v.Line.Line.ID
	}
	if l := d.lines[lineID]; l != nil {
		p.Line = &l.State
	}
	return p, nil
}
