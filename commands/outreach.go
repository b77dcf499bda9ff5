package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/commands/sending"
	"ledgerline/domain/fault"
	"ledgerline/domain/message"
	"ledgerline/domain/outreach"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// OutreachActor is the actor of everything that outreaches do.
const OutreachActor = "outreach"

// Audience is what a read model knows of the people that an outreach goes to.
type Audience struct {
	Total  int
	Groups []sending.Recipients // those who get a message
}

// CreateOutreach creates an outreach of the request's workspace; Ref is its id. The caller has checked that the
// contacts exist. Refusals: validation_failed with all that is wrong.
func (a *App) CreateOutreach(ctx context.Context, req Request, in outreach.Properties, audience Audience) (Result, error) {
	id := a.engine.IDs.UUID()
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if err := u.checkOutreach(ctx, &in); err != nil {
			return err
		}
		estimate, err := a.estimateOutreach(ctx, req, &in, startOf(&in, u.Now), u.Now, audience.Groups)
		if err != nil {
			return err
		}
		created, listed := outreach.Create(id, in, audience.Total, estimate)
		if listed != nil {
			engine.Begin(u.Unit, a.engine.OutreachLists, outreach.ListStream(id)).Record(listed...)
		}
		engine.Begin(u.Unit, a.engine.Outreaches, outreach.Stream(id)).Record(created...)
		u.Ref = id.String()
		return nil
	})
}

// PreviewOutreach is the dry run of CreateOutreach: it refuses what CreateOutreach refuses, and otherwise forecasts
// when every message has left or failed.
func (a *App) PreviewOutreach(ctx context.Context, req Request, in outreach.Properties, audience Audience) (time.Time, error) {
	u := a.unit(&req)
	err := u.checkOutreach(ctx, &in)
	if changed := a.engine.VerifyCaller(ctx, &req); changed != nil {
		return time.Time{}, changed
	}
	if err != nil {
		return time.Time{}, err
	}
	return a.estimateOutreach(ctx, req, &in, startOf(&in, u.Now), u.Now, audience.Groups)
}

// startOf is when an outreach starts that is created now.
func startOf(in *outreach.Properties, now time.Time) time.Time {
	if in.SendAt != nil && in.SendAt.After(now) {
		return *in.SendAt
	}
	return now
}

// checkOutreach refuses everything that is wrong with an outreach and with what it names.
func (u *unit) checkOutreach(ctx context.Context, in *outreach.Properties) error {
	if _, err := u.Workspace(ctx, u.Request.Workspace); err != nil {
		return err
	}
	issues := issueList(in.Check(u.Now))
	if in.SegmentID != nil {
		_, err := segments.load(ctx, u, *in.SegmentID)
		if found, err := foundUnless(err); err != nil {
			return err
		} else if !found {
			issues.add("/segment_id", "not_found", "There is no such segment.")
		}
	}
	if err := issues.collect(u.checkPool(ctx, in.PoolID)); err != nil {
		return err
	}
	if err := u.checkRequestedLine(ctx, in.LineID, &issues); err != nil {
		return err
	}
	return issues.fault()
}

// estimateOutreach forecasts when the last message has left or failed. The messages are accepted at started; those of
// the groups have not left at now.
func (a *App) estimateOutreach(
	ctx context.Context, req Request, in *outreach.Properties, started, now time.Time, groups []sending.Recipients,
) (time.Time, error) {
	template, err := workflow.ParseTemplate(in.Body)
	if err != nil {
		return time.Time{}, fault.Invalid("/body", "invalid_template", "%s", err)
	}
	first := started
	if now.After(first) {
		first = now
	}
	return a.Sending.CompletesAt(ctx, req, &sending.Forecast{
		LineID: in.LineID, PoolID: in.PoolID, Start: first, Until: started.Add(message.MaxDeferral), SameText: template.IsFixed(), Audience: groups,
	})
}

// loadOutreach loads an outreach of the request's workspace; not_found when there is none. A request without a
// workspace gets that of the outreach.
func (u *unit) loadOutreach(ctx context.Context, id uuid.UUID) (*engine.Aggregate[outreach.Outreach], error) {
	o, err := engine.Load(ctx, u.Unit, u.Engine.Outreaches, outreach.Stream(id))
	if err != nil {
		return nil, err
	}
	if u.Request.Workspace == uuid.Nil && o.State.Exists() {
		u.Request.Organisation, u.Request.Workspace = o.State.Organisation, o.State.Workspace
	}
	if !o.State.Exists() || o.State.Workspace != u.Request.Workspace {
		return nil, engine.NotFound("outreach")
	}
	return o, nil
}

// CancelOutreach ends an outreach of the request's workspace. What has not left fails soon after (rule OUT-10).
// Refusals: not_found, conflict for one that has ended.
func (a *App) CancelOutreach(ctx context.Context, req Request, id uuid.UUID) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		o, err := u.loadOutreach(ctx, id)
		if err != nil {
			return err
		}
		u.Ref = id.String()
		cancelled, err := o.State.Cancel()
		o.Record(cancelled...)
		return err
	})
}

// FindOutreach reads an outreach from the ledger; not_found when there is none.
func (a *App) FindOutreach(ctx context.Context, id uuid.UUID) (outreach.Outreach, error) {
	found, err := a.engine.Outreaches.Find(ctx, outreach.Stream(id), true)
	if err == nil && !found.Exists() {
		err = engine.NotFound("outreach")
	}
	return found, err
}

// FindOutreachContacts reads the contacts that an outreach names, in their order.
func (a *App) FindOutreachContacts(ctx context.Context, id uuid.UUID) ([]string, error) {
	list, err := a.engine.OutreachLists.Find(ctx, outreach.ListStream(id), true)
	return list.ContactIDs, err
}

// changeOutreach records what the service decides about an outreach.
func (a *App) changeOutreach(ctx context.Context, id uuid.UUID, decide func(outreach.Outreach) []events.Event) error {
	_, err := a.run(ctx, outreachRequest(id), func(ctx context.Context, u *unit) error {
		o, err := u.loadOutreach(ctx, id)
		if err == nil {
			o.Record(decide(o.State)...)
		}
		return err
	})
	return err
}

func outreachRequest(id uuid.UUID) Request {
	return Request{Actor: events.Actor{Type: "system", ID: OutreachActor}, Correlation: id}
}

// StartOutreach records that the audience of an outreach is fixed.
func (a *App) StartOutreach(ctx context.Context, o *outreach.Outreach, audience Audience) error {
	estimate, err := a.estimateRemaining(ctx, o, audience.Groups)
	if err != nil {
		return err
	}
	return a.changeOutreach(ctx, o.ID, func(s outreach.Outreach) []events.Event { return s.Start(audience.Total, estimate) })
}

// EstimateOutreach records when every message of a running outreach will have left or failed.
func (a *App) EstimateOutreach(ctx context.Context, o *outreach.Outreach, remaining []sending.Recipients) error {
	estimate, err := a.estimateRemaining(ctx, o, remaining)
	if err != nil {
		return err
	}
	return a.changeOutreach(ctx, o.ID, func(s outreach.Outreach) []events.Event { return s.Estimate(estimate) })
}

func (a *App) estimateRemaining(ctx context.Context, o *outreach.Outreach, groups []sending.Recipients) (time.Time, error) {
	req := outreachRequest(o.ID)
	req.Organisation, req.Workspace = o.Organisation, o.Workspace
	now := a.engine.Ledger.Now()
	started := o.StartedAt
	if !o.Started {
		started = now
	}
	return a.estimateOutreach(ctx, req, &o.Properties, started, now, groups)
}

// CompleteOutreach records that every message of an outreach has left or failed.
func (a *App) CompleteOutreach(ctx context.Context, id uuid.UUID) error {
	return a.changeOutreach(ctx, id, outreach.Outreach.Complete)
}

// AcceptOutreachMessage accepts the message of an outreach to one contact of its audience, or records why the contact
// gets none. It does so once for a contact, and not at all when the outreach has ended (rules OUT-6, OUT-7 and OUT-10).
func (a *App) AcceptOutreachMessage(ctx context.Context, id uuid.UUID, contactID string) error {
	_, err := a.run(ctx, outreachRequest(id), func(ctx context.Context, u *unit) error {
		u.SkipCache, u.Request.Idempotency = true, nil
		o, err := u.loadOutreach(ctx, id)
		if err != nil || o.State.Ended() {
			return err
		}
		stream := outreach.RecipientStream(id, contactID)
		if u.Fresh { // the append was refused: perhaps because the contact got its message before
			known, err := engine.Load(ctx, u.Unit, u.Engine.Recipients, stream)
			if err != nil || known.State.Decided {
				return err
			}
		}
		decided, err := u.acceptOutreach(ctx, &o.State, contactID)
		if err == nil {
			u.RecordOnStream(stream, 0, decided)
		}
		return err
	})
	if exists := (*IdempotencyRecordExists)(nil); errors.As(err, &exists) { // the contact got its message before
		return nil
	}
	return err
}

// acceptOutreach accepts the message to one contact, or decides why there is none.
func (u *unit) acceptOutreach(ctx context.Context, o *outreach.Outreach, contactID string) (events.Event, error) {
	c, err := u.loadContact(ctx, contactID)
	if found, err := foundUnless(err); err != nil {
		return nil, err
	} else if !found {
		return o.Skip(contactID, outreach.SkippedDeleted), nil
	}
	template, err := workflow.ParseTemplate(o.Body)
	if err != nil {
		return nil, err //nolint:wrapcheck // it was checked when the outreach was created
	}
	body, rendered := template.Render(workflow.Values{
		Phone: c.State.Phone, FirstName: c.State.FirstName, LastName: c.State.LastName, Company: c.State.Company, Email: c.State.Email, Fields: c.State.Fields,
	})
	in := &AcceptMessage{
		ContactID: &contactID, Body: cut(body, maxBody), Media: o.Media, PoolID: o.PoolID, LineID: o.LineID, Fallback: o.Fallback, Source: "outreach",
	}
	incomplete := !rendered || strings.TrimSpace(body) == ""
	if incomplete {
		in.Body = o.Body // only the contact's consent is checked
	}
	queued, err := u.acceptUnless(ctx, in, incomplete)
	if refused := fault.Of(err); refused != nil && refused.Code != fault.Unavailable {
		return o.Skip(contactID, skipReason(refused)), nil
	}
	if err != nil {
		return nil, err
	}
	if queued == nil {
		return o.Skip(contactID, outreach.SkippedTemplate), nil
	}
	key := "outreach:" + o.ID.String() + ":" + contactID
	fingerprint := sha256.Sum256([]byte(key))
	u.Request.Idempotency = &IdempotencyRecord{Workspace: u.Request.Workspace, Key: key, Fingerprint: fingerprint[:], Status: http.StatusCreated}
	u.Ref, u.Subject = queued.MessageID, contactID
	return o.Accept(contactID, queued.MessageID), nil
}

// acceptUnless accepts a message; with onlyCheck it only applies the rules that refuse one, and returns nil.
func (u *unit) acceptUnless(ctx context.Context, in *AcceptMessage, onlyCheck bool) (*events.MessageQueued, error) {
	if !onlyCheck {
		return u.acceptMessage(ctx, in)
	}
	to, err := u.checkedRecipient(ctx, in)
	if err == nil {
		err = u.checkConsent(ctx, to)
	}
	return nil, err
}

// skipReason is the reason for which a contact whose message was refused is skipped.
func skipReason(f *fault.Fault) string {
	switch f.Code {
	case fault.ContactOptedOut:
		return outreach.SkippedOptedOut
	case fault.ConsentRequired:
		return outreach.SkippedConsent
	case fault.NotFound:
		return outreach.SkippedDeleted
	default:
		return outreach.SkippedReference
	}
}
