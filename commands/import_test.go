package commands_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/eventstore"
)

// fileOf is an import of n new numbers, each with a label and every third with an opt-in.
func fileOf(n int) commands.ImportContacts {
	var b strings.Builder
	b.WriteString("phone,name,tags,consent\n")
	for i := range n {
		status := "unknown"
		if i%3 == 0 {
			status = "opted_in"
		}
		fmt.Fprintf(&b, "+1628%07d,Name %d,tag %d,%s\n", 2_000_000+i, i, i%5, status)
	}
	source := "fair"
	return commands.ImportContacts{
		CSV: b.String(), ConsentSource: &source,
		Mapping: map[string]string{"phone": "phone", "name": "first_name", "tags": "labels", "consent": "consent_status"},
	}
}

func (h *fixture) accept(in commands.ImportContacts) uuid.UUID {
	h.t.Helper()
	accepted, err := h.ImportContacts(h.t.Context(), h.live(), in)
	require.NoError(h.t, err)
	return uuid.MustParse(accepted.Ref)
}

func (h *fixture) finish(app *commands.App, id uuid.UUID) {
	h.t.Helper()
	for done := false; !done; {
		var err error
		done, err = app.ContinueImport(h.t.Context(), id)
		require.NoError(h.t, err)
	}
}

func (h *fixture) count(sql string, args ...any) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.ledger.Pool().QueryRow(h.t.Context(), sql, args...).Scan(&n))
	return n
}

// Two workers run at once, as after a lease expired, and are interrupted again and again, also during an append.
func TestInterruptedImportAppliesEachRowOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	const n = 2_000
	id := h.accept(fileOf(n))
	second, _ := h.node()
	var workers sync.WaitGroup
	broken := make([]int, 2)
	for w, app := range []*commands.App{h.App, second} {
		workers.Go(func() {
			for {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(time.Duration(rand.N(60))*time.Millisecond, cancel)
				done, err := app.ContinueImport(ctx, id)
				timer.Stop()
				cancel()
				if err != nil {
					broken[w]++
				}
				if done && err == nil {
					return
				}
			}
		})
	}
	workers.Wait()
	require.Positive(t, broken[0]+broken[1])
	job, err := second.FindImport(t.Context(), id)
	require.NoError(t, err)
	require.True(t, job.Finished)
	require.Equal(t, []int{n, n, 0, 0}, []int{job.Rows, job.Imported, job.Updated, job.Skipped})
	for query, want := range map[string]int{
		`select count(*) from ledger_events where type = 'contact.created'`:                                          n,
		`select count(*) from ledger_events where type = 'number.linked'`:                                            n,
		`select count(distinct stream) from ledger_events where type = 'number.linked'`:                              n,
		`select count(*) from ledger_events where type = 'contact.opted_in'`:                                         (n + 2) / 3,
		`select count(*) from ledger_events where type = 'label.created'`:                                            5,
		`select count(*) from ledger_events where type in ('import.requested', 'import.started')`:                    2,
		`select count(*) from ledger_events where type = 'import.completed'`:                                         1,
		`select sum(jsonb_array_length(data::jsonb->'label_ids')) from ledger_events where type = 'contact.created'`: n,
		`select count(*) from import_files`:                                                                          0,
	} {
		require.Equal(t, want, h.count(query), query)
	}
}

func TestImportBatchIsOneAppendWithItsProgress(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.accept(fileOf(250))
	h.finish(h.App, id)
	rows, err := h.ledger.Pool().Query(t.Context(), `select (data->>'rows')::int from ledger_events where type = 'import.progressed' order by position`)
	require.NoError(t, err)
	var done []int
	for rows.Next() {
		var n int
		require.NoError(t, rows.Scan(&n))
		done = append(done, n)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []int{100, 200, 250}, done)
	require.Zero(t, h.count(`select count(*) from ledger_events where correlation_id = $1 and (actor_type, actor_id, request_id) <> ('key', 'key_test', 'req_test')`, id),
		"every event has the actor and request id of the request that sent the file")
}

func TestRowThatCannotBeStoredDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	in := fileOf(150)
	poison := h.ledger.NumberHash(h.org, "+16282000030")
	for _, sql := range []string{
		`create function refuse() returns trigger language plpgsql as $$ begin if new.stream = 'num_` + poison + `' then raise exception 'no'; end if; return new; end $$`,
		`create trigger refuse before insert on ledger_events for each row execute function refuse()`,
	} {
		_, err := h.ledger.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	id := h.accept(in)
	h.finish(h.App, id)
	job, err := h.FindImport(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []int{150, 149, 1}, []int{job.Rows, job.Imported, job.Skipped})
	require.Equal(t, 1, h.count(`select count(*) from ledger_events where data->'errors'->0->>'row' = '32'`), "rows are numbered as a spreadsheet shows them; the header is row 1")
}

func TestLabelDeletedBeforeTheImportRunsIsNotAdded(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	in := fileOf(10)
	in.Labels = []string{"gone", "stays"}
	id := h.accept(in)
	var gone uuid.UUID
	require.NoError(t, h.ledger.Pool().QueryRow(t.Context(), `select (data->>'label_id')::uuid from ledger_events where type = 'label.created' and data->>'name' = 'gone'`).Scan(&gone))
	_, err := h.DeleteLabel(t.Context(), h.live(), gone)
	require.NoError(t, err)
	h.finish(h.App, id)
	require.Zero(t, h.count(`select count(*) from ledger_events where type = 'contact.created' and data->>'label_ids' like '%' || $1::text || '%'`, gone))
	require.Equal(t, 10, h.count(`select count(*) from ledger_events where type = 'contact.created' and json_array_length(data->'label_ids') = 2`))
}

func TestOnlyTheFirstThousandErrorsOfAnImportAreListed(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	id := h.accept(commands.ImportContacts{CSV: "p,q\n" + strings.Repeat("x,y\n", 1_250), Mapping: map[string]string{"p": "phone"}})
	h.finish(h.App, id)
	job, err := h.FindImport(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []int{1_250, 1_250, 1_000}, []int{job.Rows, job.Skipped, job.ListedErrors})
}

func TestOnlyAbandonedImportFilesAreDeleted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	waiting := h.accept(fileOf(1))
	stray := eventstore.NewID()
	_, err := h.ledger.Pool().Exec(t.Context(), `insert into import_files (job_id, sealed) values ($1, 'x')`, stray)
	require.NoError(t, err)
	require.NoError(t, h.DeleteAbandonedImportFiles(t.Context(), time.Hour))
	require.Equal(t, 2, h.count(`select count(*) from import_files`), "the request of a new file may still be running")
	_, err = h.ledger.Pool().Exec(t.Context(), `update import_files set staged_at = staged_at - interval '2 hours'`)
	require.NoError(t, err)
	require.NoError(t, h.DeleteAbandonedImportFiles(t.Context(), time.Hour))
	require.Equal(t, 1, h.count(`select count(*) from import_files where job_id = $1`, waiting))
	require.Equal(t, 1, h.count(`select count(*) from import_files`))
	require.Zero(t, h.count(`select count(*) from import_files where position('+1628' in encode(sealed, 'escape')) > 0`), "the stored file is encrypted")
}

func TestRefusedImportLeavesNoFile(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	request := h.live()
	request.Idempotency = &commands.IdempotencyRecord{Workspace: h.wsp.ID, Key: "k", Fingerprint: []byte("f"), Status: 202}
	first, err := h.ImportContacts(t.Context(), request, fileOf(1))
	require.NoError(t, err)
	_, err = h.ImportContacts(t.Context(), request, fileOf(1))
	var exists *commands.IdempotencyRecordExists
	require.ErrorAs(t, err, &exists)
	require.Equal(t, first.Ref, exists.Record.Ref)
	require.Equal(t, 1, h.count(`select count(*) from import_files`))
}
