package projections

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/events"
)

func TestAuditLogShowsOnlyFactsThatItsEventsHave(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, row := range audited {
		require.False(t, listed[row.event], row.event)
		listed[row.event] = true
		require.Positive(t, events.Default.Version(row.event), row.event)
		golden, err := os.ReadFile(filepath.Join("..", "events", "testdata", fmt.Sprintf("%s.v%d.json", row.event, events.Default.Version(row.event))))
		require.NoError(t, err)
		var written struct {
			Facts map[string]any `json:"facts"`
		}
		require.NoError(t, json.Unmarshal(golden, &written))
		for _, name := range strings.Fields(row.id + " " + row.shows) {
			require.Contains(t, written.Facts, name, row.event)
			require.NotContains(t, name, "hash", row.event)
			require.NotContains(t, name, "secret", row.event)
		}
	}
}

func TestEveryChangeOfCredentialsPeopleAndTheOrganisationIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	listed := Audit.Types()
	for _, name := range events.Default.Names() {
		for _, prefix := range []string{"api_key.", "identity.", "user.", "organisation."} {
			if strings.HasPrefix(name, prefix) {
				if name != "organisation.created" { // there is no workspace yet in whose log it could be
					require.Contains(t, listed, name)
				}
			}
		}
	}
}
