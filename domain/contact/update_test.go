package contact_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

func text(s string) contact.Setting[string] { return contact.Set(&s) }

func named() contact.Contact {
	n, first, email := someone(), "Grace", "grace@example.com"
	n.Person.FirstName, n.Person.Email, n.Person.Fields = &first, &email, map[string]any{"a": 1.0, "b": []any{"x"}}
	return fold(created(n))
}

func TestUpdateRecordsOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	c := named()
	last := "Hopper"
	changed := c.Update(contact.Patch{FirstName: text("Grace"), LastName: contact.Set(&last), Email: contact.Set[string](nil)})
	require.Equal(t, []events.Event{&events.ContactUpdated{
		ContactID: "ctc_1", Changed: []string{"last_name", "email"}, Person: events.ContactPersonal{LastName: &last},
	}}, changed)
	after := c.Apply(changed[0], in)
	require.Equal(t, "Hopper", *after.LastName)
	require.Nil(t, after.Email, "null empties")
	require.Equal(t, "Grace", *after.FirstName)
	require.Empty(t, after.Update(contact.Patch{LastName: text("Hopper"), Email: contact.Set[string](nil)}))
}

func TestUpdateThatChangesNothingRecordsNoEvent(t *testing.T) {
	t.Parallel()
	c := named()
	require.Empty(t, c.Update(contact.Patch{}))
	require.Empty(t, c.Update(contact.Patch{
		Phone: c.Phone, FirstName: text("Grace"), LastName: contact.Set[string](nil), Owner: contact.Set[uuid.UUID](nil),
		Fields: map[string]any{"b": []any{"x"}, "a": 1.0},
	}))
	require.Empty(t, fold(created(someone())).Update(contact.Patch{Fields: map[string]any{}}), "no fields and empty ones are the same")
}

func TestCustomFieldsAreReplacedAndNotMerged(t *testing.T) {
	t.Parallel()
	c := named()
	for _, fields := range []map[string]any{{}, {"a": "1", "b": []any{"x"}}, {"c": nil}} {
		changed := c.Update(contact.Patch{Fields: fields})
		require.Len(t, changed, 1)
		require.Equal(t, fields, c.Apply(changed[0], in).Fields)
	}
}

func TestChangedPhoneIsRecordedWithItsHash(t *testing.T) {
	t.Parallel()
	after := named().Apply(named().Update(contact.Patch{Phone: "+14155550000", NumberHash: "other"})[0], in)
	require.Equal(t, []string{"+14155550000", "other"}, []string{after.Phone, after.NumberHash})
}

func TestChangedPhoneInTheRegisterOptsTheContactOutOnce(t *testing.T) {
	t.Parallel()
	c := named()
	out := c.FollowRegister()
	require.Equal(t, []events.Event{&events.ContactOptedOut{ConsentEvidence: evidence(consent.Unknown, consent.OptedOut, nil, true)}}, out)
	require.Empty(t, c.Apply(out[0], in).FollowRegister())
}

func TestLabelsAreAddedAndRemovedOnce(t *testing.T) {
	t.Parallel()
	a, b, other := uuid.New(), uuid.New(), uuid.New()
	c := fold(created(someone()))
	on, err := c.ChangeLabels([]uuid.UUID{a, b, a}, []uuid.UUID{other}, "/add")
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.ContactLabelsChanged{ContactID: "ctc_1", Added: []uuid.UUID{a, b}}}, on)
	c = c.Apply(on[0], in)
	none, err := c.ChangeLabels([]uuid.UUID{b}, []uuid.UUID{b, other}, "/add")
	require.NoError(t, err)
	require.Empty(t, none, "a label in both stays on")
	both, err := c.ChangeLabels([]uuid.UUID{other}, []uuid.UUID{a}, "/add")
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{b, other}, c.Apply(both[0], in).LabelIDs)
}

func TestCustomFieldsAndLabelsOfAContactAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]uuid.UUID, 201)
	for i := range many {
		many[i] = uuid.New()
	}
	_, err := fold(created(someone())).ChangeLabels(many[:200], nil, "/add")
	require.NoError(t, err)
	_, err = fold(created(someone())).ChangeLabels(many, nil, "/add")
	require.Equal(t, "/add", fault.Of(err).Issues[0].Path)
	require.NoError(t, contact.CheckFields(map[string]any{"a": strings.Repeat("x", 32<<10-8)}, "/fields"))
	require.True(t, fault.Is(contact.CheckFields(map[string]any{"a": strings.Repeat("x", 32<<10-7)}, "/fields"), fault.ValidationFailed))
}

func TestDeletedContactKeepsNoPersonalData(t *testing.T) {
	t.Parallel()
	c := named()
	gone := c.Apply(c.Delete()[0], in)
	require.False(t, gone.Exists())
	require.Equal(t, contact.Contact{
		ID: "ctc_1", ConversationID: "cnv_1", Organisation: in.Organisation, Workspace: in.Workspace, NumberHash: "hash",
		Consent: consent.Unknown, Deleted: true,
	}, gone)
}
