package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/workflow"
)

func TestATokenNamesItsWorkflowAndCannotBeForged(t *testing.T) {
	t.Parallel()
	id, key := uuid.MustParse(anID), []byte("a key")
	token := workflow.NewToken(id, key)
	require.Equal(t, token, workflow.NewToken(id, key), "the same over all versions")
	found, ok := workflow.ParseToken(token, key)
	require.True(t, ok)
	require.Equal(t, id, found)
	forged := []string{"", "wft_", token[4:], token + "0", token[:len(token)-1], strings.ToUpper(token), workflow.NewToken(uuidOf(1), key)[:20] + token[20:], "wft_" + strings.Repeat("é", 29)}
	for i := range token {
		other := byte('0')
		if token[i] == other {
			other = '1'
		}
		forged = append(forged, token[:i]+string(other)+token[i+1:])
	}
	for _, bad := range forged {
		_, ok := workflow.ParseToken(bad, key)
		require.False(t, ok, bad)
	}
	_, ok = workflow.ParseToken(token, []byte("another key"))
	require.False(t, ok)
}
