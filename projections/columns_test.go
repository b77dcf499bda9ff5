package projections

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// TestEveryHandlerWritesColumnsOfItsTables gives the golden event of every type to the handlers of all projections, and
// runs the statements: a column that the table does not have, a value of another type and a missing not null column
// fail.
func TestEveryHandlerWritesColumnsOfItsTables(t *testing.T) {
	t.Parallel()
	ledger, pool := testLedger(t)
	require.NoError(t, Prepare(t.Context(), ledger, slog.New(slog.DiscardHandler)))
	for _, p := range All() {
		for position, name := range p.Types() {
			r := goldenEvent(t, name)
			r.Position = int64(position + 1)
			var batch pgx.Batch
			require.NoError(t, p.Write(&batch, 1, []eventstore.Recorded{r}), "%s: %s", p.ID, name)
			require.NoError(t, pool.SendBatch(t.Context(), &batch).Close(), "%s: %s", p.ID, name)
		}
	}
}

// goldenEvent is the event of a type as the golden file in events/testdata has it.
func goldenEvent(t *testing.T, name string) eventstore.Recorded {
	t.Helper()
	version := events.Default.Version(name)
	text, err := os.ReadFile(filepath.Join("..", "events", "testdata", fmt.Sprintf("%s.v%d.json", name, version)))
	require.NoError(t, err)
	var golden struct{ Facts, Personal json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &golden))
	event, err := events.Default.Decode(name, version, golden.Facts, golden.Personal)
	require.NoError(t, err)
	if e, ok := event.(*events.ContactReplied); ok {
		e.Answers[0].Day = "2026-01-31"
	}
	if changed := reflect.ValueOf(event).Elem().FieldByName("Changed"); changed.IsValid() { // names of fields: all of them
		names := slices.Collect(maps.Keys(readmodel.ValuesOf(event)))
		if e, ok := event.(*events.ContactUpdated); ok {
			names = slices.AppendSeq(names, maps.Keys(readmodel.ValuesOf(e.Person)))
		}
		changed.Set(reflect.ValueOf(names))
	}
	return eventstore.Recorded{
		ID: uuid.New(), Type: name, Schema: version, OrganisationID: uuid.New(), WorkspaceID: uuid.New(), OccurredAt: time.Unix(0, 0),
		Actor: events.Actor{Type: "key", ID: "key_1"}, Data: golden.Facts, Event: event,
	}
}
