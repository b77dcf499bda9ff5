package conversation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/conversation"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

var (
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
	ref   = events.ConversationRef{ConversationID: "cnv_1", ContactID: "ctc_1", IsTest: true}
	ann   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8051")
	bea   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8052")

	started = &events.ConversationStarted{ConversationID: "cnv_1", ContactID: "ctc_1", IsTest: true}
	snoozed = &events.ConversationSnoozed{ConversationRef: ref, From: "open", Until: later}
	closed  = &events.ConversationClosed{ConversationRef: ref, From: "open"}
	woken   = &events.ConversationSnoozeEnded{ConversationRef: ref}
	byAgent = &events.ConversationHandlerChanged{ConversationRef: ref, From: "team", To: "agent:1"}
	toAnn   = &events.ConversationAssigned{ConversationRef: ref, To: &ann}
)

func reopened(from string) *events.ConversationReopened {
	return &events.ConversationReopened{ConversationID: "cnv_1", ContactID: "ctc_1", From: from}
}

func given(list ...events.Event) (c conversation.Conversation) {
	for _, e := range append([]events.Event{started}, list...) {
		c = c.Apply(e, events.Envelope{At: noon})
	}
	return c
}

func set[T any](value T) conversation.Setting[T] {
	return conversation.Setting[T]{Given: true, Value: &value}
}

func none[T any]() conversation.Setting[T] { return conversation.Setting[T]{Given: true} }

// when decides on a change and requires these events.
func when(t *testing.T, c conversation.Conversation, ch conversation.Change, want ...events.Event) {
	t.Helper()
	got, err := c.Change(ch, noon)
	require.NoError(t, err)
	if len(want) == 0 {
		require.Empty(t, got)
		return
	}
	require.Equal(t, want, got)
}

// refused decides on a change and requires a refusal at a JSON pointer.
func refused(t *testing.T, c conversation.Conversation, ch conversation.Change, pointer, code string) {
	t.Helper()
	_, err := c.Change(ch, noon)
	f := fault.Of(err)
	require.NotNil(t, f)
	require.Len(t, f.Issues, 1)
	require.Equal(t, []string{pointer, code}, []string{f.Issues[0].Path, f.Issues[0].Code})
}

func TestConversationChangesFromAnyStatusToAnyOther(t *testing.T) {
	t.Parallel()
	open, asleep, done := given(), given(snoozed), given(closed)
	to := func(s conversation.Status) conversation.Change { return conversation.Change{Status: s} }
	when(t, open, to("open"))
	when(t, open, to("closed"), closed)
	when(t, asleep, to("open"), reopened("snoozed"))
	when(t, asleep, to("closed"), &events.ConversationClosed{ConversationRef: ref, From: "snoozed"})
	when(t, done, to("open"), reopened("closed"))
	when(t, done, to("closed"))
	when(t, done, conversation.Change{Status: "snoozed", SnoozedUntil: set(later)}, &events.ConversationSnoozed{ConversationRef: ref, From: "closed", Until: later})
	refused(t, open, to("gone"), "/status", "invalid_value")
	require.Equal(t, conversation.Closed, done.Status)
	require.True(t, done.SnoozedUntil.IsZero())
}

func TestSnoozeNeedsAFutureTimeAndAFutureTimeSnoozes(t *testing.T) {
	t.Parallel()
	open, asleep, done := given(), given(snoozed), given(closed)
	when(t, open, conversation.Change{Status: "snoozed", SnoozedUntil: set(later)}, snoozed)
	when(t, open, conversation.Change{SnoozedUntil: set(later)}, snoozed)
	when(t, open, conversation.Change{SnoozedUntil: set(later.Add(999 * time.Microsecond))}, snoozed)
	when(t, asleep, conversation.Change{SnoozedUntil: set(later)})
	when(t, asleep, conversation.Change{SnoozedUntil: set(later.Add(time.Hour))},
		&events.ConversationSnoozed{ConversationRef: ref, From: "snoozed", Until: later.Add(time.Hour)})
	when(t, asleep, conversation.Change{SnoozedUntil: none[time.Time]()}, reopened("snoozed"))
	when(t, open, conversation.Change{SnoozedUntil: none[time.Time]()})
	when(t, done, conversation.Change{SnoozedUntil: none[time.Time]()})
	when(t, asleep, conversation.Change{Status: "closed", SnoozedUntil: none[time.Time]()}, &events.ConversationClosed{ConversationRef: ref, From: "snoozed"})
	for code, ch := range map[string]conversation.Change{
		"required":          {Status: "snoozed"},
		"not_in_the_future": {Status: "snoozed", SnoozedUntil: set(noon)},
		"not_snoozed":       {Status: "open", SnoozedUntil: set(later)},
	} {
		refused(t, open, ch, "/snoozed_until", code)
	}
	refused(t, open, conversation.Change{Status: "snoozed", SnoozedUntil: none[time.Time]()}, "/snoozed_until", "required")
	refused(t, open, conversation.Change{SnoozedUntil: set(noon.Add(time.Microsecond))}, "/snoozed_until", "not_in_the_future")
}

func TestSnoozedConversationOpensAtItsTimeAndNotBefore(t *testing.T) {
	t.Parallel()
	require.Empty(t, given(snoozed).EndSnooze(later.Add(-time.Millisecond)))
	require.Equal(t, []events.Event{woken}, given(snoozed).EndSnooze(later))
	require.Empty(t, given(snoozed, closed).EndSnooze(later))
	require.Empty(t, given().EndSnooze(later))
	awake := given(snoozed, woken)
	require.Equal(t, conversation.Open, awake.Status)
	require.Empty(t, awake.EndSnooze(later))
}

func TestChangeIsRecordedOnceWithThePreviousValue(t *testing.T) {
	t.Parallel()
	handler := "team"
	when(t, given(), conversation.Change{Assignee: set(ann)}, toAnn)
	when(t, given(toAnn), conversation.Change{Assignee: set(ann), Team: none[uuid.UUID](), HandledBy: &handler})
	when(t, given(toAnn), conversation.Change{Assignee: set(bea)}, &events.ConversationAssigned{ConversationRef: ref, From: &ann, To: &bea})
	when(t, given(toAnn), conversation.Change{Assignee: none[uuid.UUID]()}, &events.ConversationAssigned{ConversationRef: ref, From: &ann})
	when(t, given(toAnn), conversation.Change{})
	when(t, given(byAgent), conversation.Change{Status: "closed", Assignee: set(ann), Team: set(bea), HandledBy: &handler, MarkRead: true},
		closed, toAnn, &events.ConversationTeamSet{ConversationRef: ref, To: &bea},
		&events.ConversationHandlerChanged{ConversationRef: ref, From: "agent:1", To: "team"}, &events.ConversationRead{ConversationRef: ref})
}

func TestAgentSeesItsOwnAndUnassignedConversations(t *testing.T) {
	t.Parallel()
	require.True(t, given().VisibleTo(ann))
	require.True(t, given(toAnn).VisibleTo(ann))
	require.False(t, given(toAnn).VisibleTo(bea))
}

func TestMessageOfAPersonMakesTheTeamTheHandler(t *testing.T) {
	t.Parallel()
	require.Empty(t, given().HandleByTeam())
	require.Equal(t, []events.Event{&events.ConversationHandlerChanged{ConversationRef: ref, From: "agent:1", To: "team"}}, given(byAgent).HandleByTeam())
}

func TestHandoffIsRecordedOnlyWhenTheTeamIsNotTheHandler(t *testing.T) {
	t.Parallel()
	none, handed := given().Handoff("angry")
	require.False(t, handed)
	require.Empty(t, none)
	team := &events.ConversationTeamSet{ConversationRef: ref, To: &bea}
	got, handed := given(byAgent, team).Handoff("angry")
	require.True(t, handed)
	require.Equal(t, []events.Event{
		&events.ConversationHandlerChanged{ConversationRef: ref, From: "agent:1", To: "team"},
		&events.AgentHandoff{ConversationRef: ref, From: "agent:1", TeamID: &bea, Why: events.HandoffPersonal{Reason: "angry"}},
	}, got)
	require.Empty(t, conversation.ReasonIssues(strings.Repeat("é", 500)))
	require.Equal(t, "too_long", conversation.ReasonIssues(strings.Repeat("é", 501))[0].Code)
	require.Equal(t, "required", conversation.ReasonIssues(" ")[0].Code)
}

func TestHandlerIsTheTeamOrAnAgent(t *testing.T) {
	t.Parallel()
	agent, err := conversation.ParseHandler("team")
	require.NoError(t, err)
	require.Nil(t, agent)
	agent, err = conversation.ParseHandler("agent:" + ann.String())
	require.NoError(t, err)
	require.Equal(t, &ann, agent)
	for _, wrong := range []string{"", "Team", "agent:", "agent:1", "agent:{" + ann.String() + "}", "agent:" + strings.ToUpper(ann.String()), "workflow:" + ann.String(), "somebody"} {
		_, err := conversation.ParseHandler(wrong)
		require.True(t, fault.Is(err, fault.ValidationFailed), wrong)
	}
}

func TestNoteHasABodyOfAtMost5000Characters(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8053")
	added, err := given().AddNote(id, &ann, strings.Repeat("é", 5000))
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.NoteAdded{
		ConversationRef: ref, NoteID: id, AuthorUserID: &ann, Content: events.NotePersonal{Body: strings.Repeat("é", 5000)},
	}}, added)
	for body, code := range map[string]string{strings.Repeat("é", 5001): "too_long", "": "required", "\t": "required"} {
		_, err := given().AddNote(id, nil, body)
		require.Equal(t, code, fault.Of(err).Issues[0].Code)
	}
}
