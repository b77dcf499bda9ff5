package commands_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/events"
	"ledgerline/eventstore"
)

func TestContactIsCreatedWithItsNumberAndLabelsInOneAppend(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	before := h.head()
	source, first := "form", "Grace"
	made, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{
		Phone: "(415) 555-2671", FirstName: &first, Labels: []string{"VIP", " vip ", "New"}, OwnerUserID: &h.user,
		ConsentStatus: consent.OptedIn, ConsentSource: &source,
	})
	require.NoError(t, err)
	happened := h.history(before)
	require.Equal(t, []string{"label.created", "label.created", "contact.created", "contact.opted_in", "number.linked"}, types(happened))
	created := as[*events.ContactCreated](h, happened[2])
	require.Equal(t, made.Ref, created.ContactID)
	require.Equal(t, "+14155552671", created.Person.Phone)
	require.Len(t, created.LabelIDs, 2)
	require.Equal(t, made.Position, happened[4].Position)
	opted := as[*events.ContactOptedIn](h, happened[3])
	require.Equal(t, "form", *opted.Source)
	require.Equal(t, events.ConsentPersonal{Phone: "+14155552671", IP: "192.0.2.7", UserAgent: "test/1"}, opted.Evidence)

	again, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{Phone: number(1), Labels: []string{"vip"}})
	require.NoError(t, err)
	c := as[*events.ContactCreated](h, h.history(made.Position, "contact.created")[0])
	require.Equal(t, again.Ref, c.ContactID)
	require.Equal(t, created.LabelIDs[:1], c.LabelIDs)
}

func TestAllIssuesOfAContactAreReportedTogether(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	stranger := uuid.New()
	before := h.head()
	_, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{
		Phone: "12", OwnerUserID: &stranger, Labels: []string{"ok", " ", "a\x00b"}, ConsentStatus: consent.OptedOut,
	})
	f := fault.Of(err)
	require.Equal(t, fault.ValidationFailed, f.Code)
	var paths []string
	for _, i := range f.Issues {
		paths = append(paths, i.Path)
	}
	require.Equal(t, []string{"/phone", "/owner_user_id", "/labels/1", "/labels/2", "/consent_status"}, paths)
	require.Equal(t, before, h.head())
}

func TestPhoneNumberIsUniqueInAWorkspace(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.contact(number(1))
	_, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{Phone: number(1)})
	require.True(t, fault.Is(err, fault.Conflict))
	require.Equal(t, id, fault.Of(err).Details["contact_id"])
	_, err = h.CreateContact(t.Context(), h.in(h.workspace("Other")), commands.CreateContact{Phone: number(1)})
	require.NoError(t, err)
}

func TestSecondOfTwoConcurrentCreatesIsRefusedWithTheIDOfTheFirst(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	for i := range 10 {
		results, errs := make([]commands.Result, 2), make([]error, 2)
		var both sync.WaitGroup
		for n, app := range []*commands.App{h.App, other} {
			both.Go(func() {
				results[n], errs[n] = app.CreateContact(t.Context(), h.live(), commands.CreateContact{Phone: number(i), Labels: []string{"same"}})
			})
		}
		both.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		require.NoError(t, errs[won])
		require.True(t, fault.Is(errs[1-won], fault.Conflict))
		require.Equal(t, results[won].Ref, fault.Of(errs[1-won]).Details["contact_id"])
	}
	require.Len(t, h.history(0, "label.created"), 1)
}

func TestOptOutAppliesInEveryWorkspaceAndAfterTheContactIsDeleted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second := h.workspace("Second")
	id := h.contact(number(1))
	twin, err := h.CreateContact(t.Context(), h.in(second), commands.CreateContact{Phone: number(1)})
	require.NoError(t, err)
	before := h.head()
	keyword := "stop"
	_, err = h.OptOut(t.Context(), h.live(), id, "phone call", &keyword)
	require.NoError(t, err)
	happened := h.history(before)
	require.Equal(t, []string{"contact.opted_out", "number.opted_out", "contact.opted_out"}, types(happened))
	own, followed := as[*events.ContactOptedOut](h, happened[0]), as[*events.ContactOptedOut](h, happened[2])
	require.Equal(t, []any{id, "unknown", "opted_out", false, "phone call", "stop"}, []any{own.ContactID, own.From, own.To, own.Register, *own.Source, *own.Keyword})
	require.Equal(t, []any{twin.Ref, true}, []any{followed.ContactID, followed.Register})
	require.Equal(t, second.ID, happened[2].WorkspaceID)
	require.Equal(t, events.Actor{Type: "system"}, happened[2].Actor, "the second workspace does not see who acted in the first one")
	require.Empty(t, happened[2].RequestID)
	require.NotEqual(t, happened[0].CorrelationID, happened[2].CorrelationID)
	require.Nil(t, followed.Source)
	require.Nil(t, followed.Keyword)
	require.Equal(t, events.Actor{Type: "key", ID: "key_test"}, happened[0].Actor)

	_, err = h.AcceptMessage(t.Context(), h.in(second), text(number(1)))
	require.True(t, fault.Is(err, fault.ContactOptedOut))

	_, err = h.DeleteContact(t.Context(), h.live(), id)
	require.NoError(t, err)
	_, err = h.FindContact(t.Context(), id)
	require.True(t, fault.Is(err, fault.NotFound))
	_, err = h.AcceptMessage(t.Context(), h.live(), text(number(1)))
	require.True(t, fault.Is(err, fault.ContactOptedOut))

	again, err := h.CreateContact(t.Context(), h.live(), commands.CreateContact{Phone: number(1), ConsentStatus: consent.OptedIn})
	require.NoError(t, err)
	c, err := h.FindContact(t.Context(), again.Ref)
	require.NoError(t, err)
	require.Equal(t, consent.OptedOut, c.Consent)
}

func TestOptInRemovesTheNumberFromTheRegisterAndChangesOnlyThatContact(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	second := h.workspace("Second")
	id := h.contact(number(1))
	twin, err := h.CreateContact(t.Context(), h.in(second), commands.CreateContact{Phone: number(1)})
	require.NoError(t, err)
	_, err = h.SetConsent(t.Context(), h.live(), id, consent.OptedOut, "call")
	require.NoError(t, err)

	_, err = h.SetConsent(t.Context(), h.live(), id, consent.Unknown, "call") // leaves the register
	require.NoError(t, err)
	_, err = h.AcceptMessage(t.Context(), h.live(), text(number(1)))
	require.True(t, fault.Is(err, fault.ContactOptedOut))

	_, err = h.SetConsent(t.Context(), h.live(), id, consent.OptedIn, "call")
	require.NoError(t, err)
	h.message(number(1))
	c, err := h.FindContact(t.Context(), twin.Ref)
	require.NoError(t, err)
	require.Equal(t, consent.OptedOut, c.Consent)
	_, err = h.AcceptMessage(t.Context(), h.in(second), text(number(1)))
	require.True(t, fault.Is(err, fault.ContactOptedOut))
}

func TestRepeatedOptOutIsRecordedAgainForTheContact(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.contact(number(1))
	for range 2 {
		_, err := h.OptOut(t.Context(), h.live(), id, "call", nil)
		require.NoError(t, err)
	}
	acts := h.history(0, "contact.opted_out", "number.opted_out")
	require.Equal(t, []string{"contact.opted_out", "number.opted_out", "contact.opted_out"}, types(acts))
	last := as[*events.ContactOptedOut](h, acts[2])
	require.Equal(t, []string{"opted_out", "opted_out"}, []string{last.From, last.To})
}

func TestConcurrentOptOutsOfOneContactAllSucceed(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.contact(number(1))
	errs := make([]error, 32)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = h.OptOut(t.Context(), h.live(), id, "call", nil) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, h.history(0, "contact.opted_out"), len(errs))
	require.Len(t, h.history(0, "number.opted_out"), 1)
}

func TestContactOfAnotherWorkspaceIsNotFound(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	foreign := h.in(h.workspace("Other"))
	id := h.contact(number(1))
	_, consentErr := h.SetConsent(t.Context(), foreign, id, consent.OptedOut, "x")
	_, deleteErr := h.DeleteContact(t.Context(), foreign, id)
	_, sendErr := h.AcceptMessage(t.Context(), foreign, commands.AcceptMessage{ContactID: &id, Body: "x", Source: "api"})
	_, absentErr := h.DeleteContact(t.Context(), h.live(), "ctc_\x00")
	for _, err := range []error{consentErr, deleteErr, sendErr, absentErr} {
		require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	}
}

func TestDeletedContactIsUnreadableAndItsNumberCanBeUsedAgain(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other, _ := h.node()
	id := h.contact(number(1))
	h.message(number(1))
	_, err := other.FindContact(t.Context(), id) // the other node now has the contact in memory
	require.NoError(t, err)
	_, err = h.DeleteContact(t.Context(), h.live(), id)
	require.NoError(t, err)
	for _, r := range h.history(0, "contact.created", "message.queued") {
		require.True(t, r.Erased)
	}
	_, err = other.AcceptMessage(t.Context(), h.live(), commands.AcceptMessage{ContactID: &id, Body: "x", Source: "api"})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	q, err := other.AcceptMessage(t.Context(), h.live(), text(number(1)))
	require.NoError(t, err)
	require.NotEqual(t, id, q.Event.ContactID)
}

func TestRetryGetsTheStoredAnswerEvenIfItWouldBeRefusedNow(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	req := h.live()
	req.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp.ID, Key: "once", Fingerprint: []byte("f"), Status: 201}
	made, err := h.CreateContact(t.Context(), req, commands.CreateContact{Phone: number(1)})
	require.NoError(t, err)
	_, err = h.CreateContact(t.Context(), req, commands.CreateContact{Phone: number(1)})
	exists := (*eventstore.IdempotencyRecordExists)(nil)
	require.ErrorAs(t, err, &exists)
	require.Equal(t, []any{made.Ref, 201, made.Position}, []any{exists.Record.Ref, exists.Record.Status, exists.Record.Position})

	req.Idempotency = &eventstore.IdempotencyRecord{Workspace: h.wsp.ID, Key: "refused", Fingerprint: []byte("f"), Status: 409, Body: []byte("{}")}
	require.NoError(t, h.StoreRefusal(t.Context(), req))
	require.ErrorAs(t, h.StoreRefusal(t.Context(), req), &exists)
	require.Equal(t, []byte("{}"), exists.Record.Body)
}
