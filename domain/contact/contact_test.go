package contact_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

var in = events.Envelope{Organisation: uuid.New(), Workspace: uuid.New(), At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

func fold(list ...events.Event) (c contact.Contact) {
	for _, e := range list {
		c = c.Apply(e, in)
	}
	return c
}

func someone() contact.NewContact {
	return contact.NewContact{
		ID: "ctc_1", ConversationID: "cnv_1", NumberHash: "hash", Origin: "api",
		Person: events.ContactPersonal{Phone: "+14155552671"},
	}
}

func created(n contact.NewContact) *events.ContactCreated {
	return &events.ContactCreated{
		ContactID: n.ID, ConversationID: n.ConversationID, NumberHash: n.NumberHash, Origin: n.Origin, Person: n.Person,
	}
}

func evidence(from, to consent.Status, source *string, register bool) events.ConsentEvidence {
	return events.ConsentEvidence{
		ContactID: "ctc_1", NumberHash: "hash", From: string(from), To: string(to), Source: source, Register: register,
		Evidence: events.ConsentPersonal{Phone: "+14155552671"},
	}
}

// Every change of consent between the statuses of rule CON-11.

func TestNewContactHasUnknownConsent(t *testing.T) {
	t.Parallel()
	n := someone()
	made, err := contact.Create(n)
	require.NoError(t, err)
	require.Equal(t, []events.Event{created(n)}, made)
	require.Equal(t, consent.Unknown, fold(made...).Consent)
}

func TestNewContactMayBeOptedInWithASource(t *testing.T) {
	t.Parallel()
	n, source := someone(), "form"
	n.Consent, n.Evidence = consent.OptedIn, consent.Evidence{Source: &source}
	made, err := contact.Create(n)
	require.NoError(t, err)
	require.Equal(t, []events.Event{created(n), &events.ContactOptedIn{ConsentEvidence: evidence(consent.Unknown, consent.OptedIn, &source, false)}}, made)
}

func TestRegisterOfOptOutsOverridesTheRequestedConsent(t *testing.T) {
	t.Parallel()
	for _, asked := range []consent.Status{"", consent.Unknown, consent.OptedIn} {
		n := someone()
		n.Consent, n.NumberOptedOut = asked, true
		made, err := contact.Create(n)
		require.NoError(t, err)
		require.Equal(t, []events.Event{created(n), &events.ContactOptedOut{ConsentEvidence: evidence(consent.Unknown, consent.OptedOut, nil, true)}}, made)
	}
}

func TestNewContactCannotBeRequestedAsOptedOut(t *testing.T) {
	t.Parallel()
	n := someone()
	n.Consent = consent.OptedOut
	_, err := contact.Create(n)
	require.Equal(t, "/consent_status", fault.Of(err).Issues[0].Path)
}

func with(status consent.Status) contact.Contact {
	c := fold(created(someone()))
	c.Consent = status
	return c
}

func TestConsentChangesFromAnyStatusToAnyOther(t *testing.T) {
	t.Parallel()
	source := "call"
	for _, from := range []consent.Status{consent.Unknown, consent.OptedIn, consent.OptedOut} {
		for to, want := range map[consent.Status]events.Event{
			consent.OptedIn:  &events.ContactOptedIn{ConsentEvidence: evidence(from, consent.OptedIn, &source, false)},
			consent.Unknown:  &events.ContactConsentCleared{ConsentEvidence: evidence(from, consent.Unknown, &source, false)},
			consent.OptedOut: &events.ContactOptedOut{ConsentEvidence: evidence(from, consent.OptedOut, &source, false)},
		} {
			c := with(from)
			changed, err := c.SetConsent(to, consent.Evidence{Source: &source})
			require.NoError(t, err)
			require.Equal(t, []events.Event{want}, changed, "%s to %s", from, to)
			require.Equal(t, to, c.Apply(changed[0], in).Consent)
		}
	}
	_, err := with(consent.Unknown).SetConsent("maybe", consent.Evidence{})
	require.Equal(t, "/status", fault.Of(err).Issues[0].Path)
}

func TestContactFollowsAnOptOutOfItsNumberOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []events.Event{&events.ContactOptedOut{ConsentEvidence: evidence(consent.OptedIn, consent.OptedOut, nil, true)}},
		with(consent.OptedIn).FollowRegister())
	require.Empty(t, with(consent.OptedOut).FollowRegister())
	require.Empty(t, contact.Contact{}.FollowRegister())
}

func TestLineIsAssignedOnlyToAContactWithoutOne(t *testing.T) {
	t.Parallel()
	c := with(consent.Unknown)
	assigned := c.AssignLine("ln_1", false)
	require.Equal(t, []events.Event{&events.ContactLineAssigned{ContactID: "ctc_1", LineID: "ln_1"}}, assigned)
	c = c.Apply(assigned[0], in)
	require.Equal(t, "ln_1", c.LineID)
	require.Empty(t, c.AssignLine("ln_2", false))
	require.Empty(t, c.AssignLine("ln_1", true))
	require.Len(t, c.AssignLine("ln_2", true), 1, "its own line is gone for good")
}

func TestContactIsDeletedOnce(t *testing.T) {
	t.Parallel()
	c := with(consent.Unknown)
	require.True(t, c.Exists())
	deleted := c.Delete()
	require.Equal(t, []events.Event{&events.ContactDeleted{ContactID: "ctc_1", NumberHash: "hash"}}, deleted)
	c = c.Apply(deleted[0], in)
	require.False(t, c.Exists())
	require.Empty(t, c.Phone)
	require.Empty(t, c.Delete())
}
