package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/smsconnection"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// SMSProvider is what commands need of the SMS provider. Package commands does not know its wire.
type SMSProvider interface {
	// Verify asks the provider whether the credentials and the sender of a connection are good (rule SMS-3). With inbound
	// it then makes the provider report inbound messages to the service. problem is "" for a success, else what is wrong
	// in words for people, without credentials.
	Verify(ctx context.Context, c *smsconnection.Connection, inbound bool) (problem string)
	// SendText sends a text that is no message of the inbox. The error is a *SMSRefused, wraps ErrSMSNotReached when the
	// provider certainly did not get the call, or is any other when the provider failed.
	SendText(ctx context.Context, c *smsconnection.Connection, from, to, body string) (SMSText, error)
}

// SMSText is a text that the provider accepted: its id there, and its status in the provider's words.
type SMSText struct{ ID, Status string }

// SMSRefused is the error of a text that the provider refused, with the provider's code.
type SMSRefused struct{ Code string }

func (e *SMSRefused) Error() string { return "commands: the SMS provider refused the text: " + e.Code }

// ErrSMSNotReached says that the provider was not reached.
var ErrSMSNotReached = errors.New("commands: the SMS provider was not reached")

// CreateSMSConnection has the properties of a connection (rules SMS-1 and SMS-2).
type CreateSMSConnection struct {
	smsconnection.Account
	Confirmed bool // by the user who makes the request
	Inbound   bool // the provider shall report inbound messages to the service
}

// CreateSMSConnection creates the connection of the request's workspace, and verifies it at the provider; Ref is its
// id. The credentials are stored before the provider is asked, so after a crash in between the connection is pending.
// Refusals: validation_failed, forbidden for what only a user may set (rule SMS-7), conflict with connection_id when
// the workspace has a connection.
func (a *App) CreateSMSConnection(ctx context.Context, req Request, in CreateSMSConnection, provider SMSProvider) (Result, error) {
	if err := onlyUsers(&req, in.Confirmed, in.Inbound); err != nil {
		return Result{}, err
	}
	id := a.engine.IDs.TypeID("smc")
	created, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		if _, err := u.Workspace(ctx, req.Workspace); err != nil {
			return err
		}
		list, err := smsconnection.Create(id, in.Account)
		if err != nil {
			return err
		}
		c := engine.Begin(u.Unit, a.engine.SMSConnections, id)
		c.Record(list...)
		if in.Confirmed {
			c.Record(c.State.Confirm(uuid.MustParse(req.Actor.ID))...)
		}
		u.Claim(smsconnection.ClaimScope, req.Workspace.String(), id, func(owner string) error {
			return fault.New(fault.Conflict, "The workspace has an SMS connection.").With("connection_id", owner)
		})
		u.Ref = id
		return nil
	})
	if err != nil {
		return created, err
	}
	req.Idempotency = nil // the record is stored with the connection
	return a.verifySMSConnection(ctx, req, id, in.Inbound, provider)
}

// onlyUsers refuses with forbidden what only a signed-in user may ask for.
func onlyUsers(req *Request, asks ...bool) error {
	for _, asked := range asks {
		if asked && req.Actor.Type != "user" {
			return fault.New(fault.Forbidden, "Only a signed-in user can confirm compliance, or change the inbound webhook at the provider.")
		}
	}
	return nil
}

// loadSMSConnection loads a connection of the request's workspace; not_found when there is none.
func (u *unit) loadSMSConnection(ctx context.Context, id string) (*engine.Aggregate[smsconnection.Connection], error) {
	c, err := engine.Load(ctx, u.Unit, u.Engine.SMSConnections, id)
	if err == nil && (!c.State.Exists() || c.State.Workspace != u.Request.Workspace) {
		err = engine.NotFound("SMS connection")
	}
	return c, err
}

// VerifySMSConnection checks a connection of the request's workspace at the provider, and records the result (rule
// SMS-3). Refusals: not_found, forbidden for inbound without a user.
func (a *App) VerifySMSConnection(ctx context.Context, req Request, id string, inbound bool, provider SMSProvider) (Result, error) {
	if err := onlyUsers(&req, inbound); err != nil {
		return Result{}, err
	}
	return a.verifySMSConnection(ctx, req, id, inbound, provider)
}

// maxVerifications bounds how often a connection is verified again because it changed meanwhile.
const maxVerifications = 3

func (a *App) verifySMSConnection(ctx context.Context, req Request, id string, inbound bool, provider SMSProvider) (Result, error) {
	for range maxVerifications {
		checked, err := a.engine.SMSConnections.Find(ctx, id, true)
		if err != nil {
			return Result{}, err
		}
		if !checked.Exists() || checked.Workspace != req.Workspace {
			return Result{}, engine.NotFound("SMS connection")
		}
		problem := provider.Verify(ctx, &checked, inbound)
		changed := false
		result, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
			c, err := u.loadSMSConnection(ctx, id)
			if err != nil {
				return err
			}
			if changed = !c.State.SameAccount(&checked); changed {
				return fault.New(fault.Conflict, "The connection changed while it was verified.")
			}
			c.Record(c.State.RecordVerification(problem, inbound)...)
			u.Ref = id
			return nil
		})
		if err == nil || !changed {
			return result, err
		}
	}
	return Result{}, fault.New(fault.Conflict, "The connection changes while it is verified. Verify it again.")
}

// UpdateSMSConnection changes a connection of the request's workspace. Refusals: not_found, forbidden for a
// confirmation without a user, and those of smsconnection.Connection.Update.
func (a *App) UpdateSMSConnection(ctx context.Context, req Request, id string, change smsconnection.Change) (Result, error) {
	if err := onlyUsers(&req, change.Confirmed != nil && *change.Confirmed); err != nil {
		return Result{}, err
	}
	if req.Actor.Type == "user" {
		change.ConfirmedBy = uuid.MustParse(req.Actor.ID)
	}
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadSMSConnection(ctx, id)
		if err != nil {
			return err
		}
		changed, err := c.State.Update(change)
		if err != nil {
			return err
		}
		c.Record(changed...)
		u.Ref = id
		return nil
	})
}

// DeleteSMSConnection deletes a connection of the request's workspace. The key of its credentials is destroyed with the
// same append.
func (a *App) DeleteSMSConnection(ctx context.Context, req Request, id string) (Result, error) {
	return a.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadSMSConnection(ctx, id)
		if err != nil {
			return err
		}
		c.Record(c.State.Delete()...)
		u.ReleaseClaim(smsconnection.ClaimScope, u.Request.Workspace.String(), id)
		u.Erase(id)
		u.Ref = id
		return nil
	})
}

// FindSMSConnection reads a connection with its credentials: from the ledger, or without fresh from memory, which may
// be old. A deleted connection is returned with its status; not_found means that there never was one.
func (a *App) FindSMSConnection(ctx context.Context, id string, fresh bool) (smsconnection.Connection, error) {
	c, err := a.engine.SMSConnections.Find(ctx, id, fresh)
	if err == nil && c.ID == "" {
		err = engine.NotFound("SMS connection")
	}
	return c, err
}

// SentTestText is a test text that the provider accepted; Ref is the id of the test.
type SentTestText struct {
	Result
	ProviderID string
	Status     string // in the provider's words
	To         string // E.164
}

// TestSMSConnection sends the test text to a number (rules SMS-11 and SMS-12). answer, when not nil, renders the answer
// so that it commits with the idempotency record. Refusals: validation_failed, not_found, forbidden without a user,
// conflict when the connection is not ready or the provider refuses (with provider_code), contact_opted_out,
// rate_limited, service_unavailable when the provider cannot be reached or fails.
func (a *App) TestSMSConnection(
	ctx context.Context, req Request, id, to string, answer func(SentTestText) ([]byte, error), provider SMSProvider,
) (SentTestText, error) {
	e164, err := a.engine.Phone(to, "/to")
	if err != nil {
		return SentTestText{}, err
	}
	if req.Actor.Type != "user" {
		return SentTestText{}, fault.New(fault.Forbidden, "Only a signed-in user can send the test text.")
	}
	if r := req.Idempotency; r != nil { // a text that was sent is not sent again
		stored, err := a.engine.Ledger.FindIdempotencyRecord(ctx, r.Workspace, r.Key)
		if err != nil {
			return SentTestText{}, engine.Unreadable(err)
		}
		if stored != nil {
			return SentTestText{}, fmt.Errorf("commands: %w", &eventstore.IdempotencyRecordExists{Record: *stored})
		}
	}
	test := &smsTest{app: a, id: a.engine.IDs.UUID(), connectionID: id, to: e164}
	if err := test.begin(ctx, req); err != nil {
		return SentTestText{}, err
	}
	text, sendErr := provider.SendText(ctx, &test.connection, test.connection.Sender("", "", ""), e164, test.body)
	return test.end(context.WithoutCancel(ctx), req, text, sendErr, answer)
}

// smsTest is one test text on its way.
type smsTest struct {
	app          *App
	id           uuid.UUID
	connectionID string
	to           string

	connection smsconnection.Connection // these are set by begin
	body       string
	counted    time.Time
}

// The windows in which test texts are limited.
const (
	testMinute = time.Minute
	testDay    = 24 * time.Hour
)

func (t *smsTest) quotaKey(req *Request, window time.Duration) string {
	if window == testMinute {
		return "sms_tests:" + req.Workspace.String()
	}
	return "sms_tests_day:" + req.Workspace.String()
}

// begin checks whether the text may be sent, and counts it.
func (t *smsTest) begin(ctx context.Context, req Request) error {
	req.Idempotency = nil // the record is stored with the result
	_, err := t.app.run(ctx, req, func(ctx context.Context, u *unit) error {
		c, err := u.loadSMSConnection(ctx, t.connectionID)
		if err != nil {
			return err
		}
		if !c.State.Ready() {
			return fault.New(fault.Conflict, "The connection is not ready: it has to be active, verified, and confirmed for compliance.")
		}
		if err := u.refuseOptedOut(ctx, t.to); err != nil {
			return err
		}
		org, err := u.Organisation(ctx)
		if err != nil {
			return err
		}
		t.connection, t.body, t.counted = c.State, org.State.Name+": this is a test message. Reply STOP to opt out.", u.Now
		u.RecordOnStream(events.Stream("smt", t.id), eventstore.NoStream, &events.SMSTextTested{ConnectionID: t.connectionID, TestID: t.id})
		u.LimitIn(t.quotaKey(&req, testMinute), testMinute, smsconnection.TestsPerMinute, "There are at most 5 test texts a minute in a workspace.")
		u.LimitIn(t.quotaKey(&req, testDay), testDay, smsconnection.TestsPerDay, "There are at most 20 test texts in 24 hours in a workspace.")
		return nil
	})
	for _, window := range []time.Duration{testMinute, testDay} {
		err = t.app.engine.RetryAfterIn(ctx, t.quotaKey(&req, window), window, err)
	}
	return err
}

// refuseOptedOut refuses a number that opted out in the organisation with contact_opted_out.
func (u *unit) refuseOptedOut(ctx context.Context, e164 string) error {
	num, err := u.Number(ctx, e164)
	if err != nil {
		return err
	}
	c, err := u.findContact(ctx, num)
	if err != nil {
		return err
	}
	if num.State.OptedOut || c != nil && c.State.Consent == consent.OptedOut {
		return fault.New(fault.ContactOptedOut, "The number opted out.")
	}
	return nil
}

// end records what became of the text. A text that did not reach the provider is not counted.
func (t *smsTest) end(ctx context.Context, req Request, text SMSText, sendErr error, answer func(SentTestText) ([]byte, error)) (SentTestText, error) {
	ended := &events.SMSTextTestEnded{ConnectionID: t.connectionID, TestID: t.id, ProviderID: text.ID, Status: text.Status}
	refused := (*SMSRefused)(nil)
	if errors.As(sendErr, &refused) {
		ended.ProviderCode = refused.Code
	}
	if sendErr != nil {
		req.Idempotency = nil
	}
	sent := SentTestText{ProviderID: text.ID, Status: text.Status, To: t.to}
	result, err := t.app.run(ctx, req, func(_ context.Context, u *unit) error {
		u.RecordOnStream(events.Stream("smt", t.id), 1, ended)
		if errors.Is(sendErr, ErrSMSNotReached) {
			for _, window := range []time.Duration{testMinute, testDay} {
				u.Quota(eventstore.Quota{
					Key: t.quotaKey(&req, window), Bucket: engine.LimitBucket(t.counted), From: engine.LimitBucket(t.counted), Add: -1, Limit: math.MaxInt64,
				}, nil)
			}
		}
		u.Ref, u.Subject = t.id.String(), t.connectionID
		sent.Result = Result{Ref: u.Ref, Shard: t.app.engine.Ledger.ShardOf(req.Organisation), At: u.Now}
		if sendErr != nil {
			return nil //nolint:nilerr // the test counts; the caller gets sendErr
		}
		return renderAnswer(u, sent, answer)
	})
	switch {
	case refused != nil:
		return SentTestText{}, fault.New(fault.Conflict, "The SMS provider refused the text.").With("provider_code", refused.Code)
	case sendErr != nil:
		f := fault.New(fault.Unavailable, "The SMS provider cannot be reached right now. Try again.")
		f.RetryAfter, f.Cause = probeRetryAfter, sendErr
		return SentTestText{}, f
	case err != nil:
		return SentTestText{}, err
	}
	sent.Result = result
	return sent, nil
}
