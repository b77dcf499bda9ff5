package savedreply_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/savedreply"
	"ledgerline/events"
)

var (
	id   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	team = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
)

func TestSavedReplyIsCreatedReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	made, err := savedreply.Create(id, savedreply.Text{Title: " Hours ", Body: " nine "})
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.SavedReplyCreated{SavedReplyID: id, Title: "Hours", Body: " nine "}}, made)
	s := savedreply.SavedReply{}.Apply(made[0], events.Envelope{Workspace: team})
	require.True(t, s.Exists())
	same, err := s.Update(savedreply.Text{Title: "Hours ", Body: " nine "})
	require.NoError(t, err)
	require.Empty(t, same)
	changed, err := s.Update(savedreply.Text{Title: "Hours", Body: " nine ", TeamID: &team})
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.SavedReplyUpdated{SavedReplyID: id, Title: "Hours", Body: " nine ", TeamID: &team}}, changed)
	s = s.Apply(changed[0], events.Envelope{})
	other := team
	same, err = s.Update(savedreply.Text{Title: "Hours", Body: " nine ", TeamID: &other})
	require.NoError(t, err)
	require.Empty(t, same)
	require.False(t, s.Apply(s.Delete()[0], events.Envelope{}).Exists())
}

func TestTitleIsClaimedWithoutRegardToCaseAndSpaces(t *testing.T) {
	t.Parallel()
	scope, key := savedreply.Claim(team, "  HoUrs ")
	require.Equal(t, "saved_reply:"+team.String(), scope)
	require.Equal(t, "hours", key)
}

func TestSavedReplyProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  savedreply.Text
		wrong []string
	}{
		{savedreply.Text{}, []string{"/title required", "/body required"}},
		{savedreply.Text{Title: strings.Repeat("é", 121), Body: strings.Repeat("é", 2001)}, []string{"/title too_long", "/body too_long"}},
		{savedreply.Text{Title: "a\nb", Body: "x"}, []string{"/title invalid_value"}},
	} {
		_, err := savedreply.Create(id, c.text)
		var found []string
		for _, issue := range fault.Of(err).Issues {
			found = append(found, issue.Path+" "+issue.Code)
		}
		require.Equal(t, c.wrong, found)
	}
	_, err := savedreply.Create(id, savedreply.Text{Title: strings.Repeat("é", 120), Body: strings.Repeat("é", 2000)})
	require.NoError(t, err)
}
