package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"ledgerline/clock"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/test/testpg"
)

// exampleDatabase is what testpg.Database needs of a test.
type exampleDatabase struct {
	testing.TB
	cleanups []func()
}

func (d *exampleDatabase) Helper()                           {}
func (d *exampleDatabase) Context() context.Context          { return context.Background() }
func (d *exampleDatabase) Cleanup(f func())                  { d.cleanups = append(d.cleanups, f) }
func (d *exampleDatabase) Errorf(format string, args ...any) { fmt.Printf(format, args...) }
func (d *exampleDatabase) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// openExampleLedger opens a ledger in a new database and returns the function that closes it.
func openExampleLedger() (ledger *eventstore.Ledger, closeLedger func()) {
	ctx := context.Background()
	database := &exampleDatabase{}
	pool, err := pgxpool.New(ctx, testpg.Database(database))
	if err != nil {
		panic(err)
	}
	keyring, _, err := eventstore.NewKeyring()
	if err != nil {
		panic(err)
	}
	ledger, err = eventstore.Open(ctx, eventstore.Config{Pool: pool, Keyring: keyring, Clock: clock.System()})
	if err != nil {
		panic(err)
	}
	return ledger, func() {
		ledger.Close()
		pool.Close()
		for _, f := range slices.Backward(database.cleanups) {
			f()
		}
	}
}

// newAppend returns an append of one event to a stream, which is expected to be at a version.
func newAppend(stream string, expected int, event events.Event) eventstore.Append {
	return eventstore.Append{
		Organisation: uuid.MustParse("0190a000-0000-7000-8000-000000000001"),
		Workspace:    uuid.MustParse("0190a000-0000-7000-8000-000000000002"),
		Actor:        events.Actor{Type: "system"},
		At:           time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Streams:      []eventstore.StreamEvents{{Stream: stream, Expected: expected, Events: []events.Event{event}}},
	}
}

// Two events are appended to one stream, each at the version that the stream has reached. The stream is then loaded.
func ExampleLedger_Load() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	contact := "ctc_1"
	created := &events.ContactCreated{ContactID: contact, Origin: "api", Person: events.ContactPersonal{Phone: "+12025550123"}}
	if _, err := ledger.Append(ctx, newAppend(contact, eventstore.NoStream, created)); err != nil {
		fmt.Println(err)
	}
	if _, err := ledger.Append(ctx, newAppend(contact, 1, &events.ContactLineAssigned{ContactID: contact, LineID: "ln_1"})); err != nil {
		fmt.Println(err)
	}

	recorded, err := ledger.Load(ctx, contact, 0)
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range recorded {
		switch e := r.Event.(type) {
		case *events.ContactCreated:
			fmt.Println(r.Version, r.Type, e.Person.Phone)
		case *events.ContactLineAssigned:
			fmt.Println(r.Version, r.Type, e.LineID)
		}
	}
	// Output:
	// 1 contact.created +12025550123
	// 2 contact.line_assigned ln_1
}

// A label may be created only while the workspace's team is as the command has read it. The append does not add to the
// team's stream; it depends on it by a guard.
func ExampleLedger_Append_guard() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	if _, err := ledger.Append(ctx, newAppend("team_1", eventstore.NoStream, &events.TeamCreated{Name: "Support"})); err != nil {
		fmt.Println(err)
	}
	// The team changes after the command has read it at version 1.
	if _, err := ledger.Append(ctx, newAppend("team_1", 1, &events.TeamMemberAdded{})); err != nil {
		fmt.Println(err)
	}

	label := newAppend("lbl_1", eventstore.NoStream, &events.LabelCreated{Name: "VIP"})
	label.Guards = []eventstore.Guard{{Stream: "team_1", Version: 1}}
	_, err := ledger.Append(ctx, label)
	var conflict *eventstore.VersionConflict
	if errors.As(err, &conflict) {
		fmt.Printf("%s is at version %d, not %d: load again and decide again\n", conflict.Stream, conflict.Actual, conflict.Expected)
	}
	// Output:
	// team_1 is at version 2, not 1: load again and decide again
}

// The name of a label is unique in its workspace: the append that creates the label takes a claim on the name.
func ExampleLedger_Append_claim() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	for _, stream := range []string{"lbl_1", "lbl_2"} {
		label := newAppend(stream, eventstore.NoStream, &events.LabelCreated{Name: "VIP"})
		label.Claims = []eventstore.Claim{{Scope: "label name", Key: "vip", Owner: stream}}
		_, err := ledger.Append(ctx, label)
		var taken *eventstore.ClaimTaken
		if errors.As(err, &taken) {
			fmt.Println("the name belongs to", taken.Owner)
		}
	}
	// Output:
	// the name belongs to lbl_1
}

// A line may send to two new contacts a day. Each append adds 1 to the line's counter for that day.
func ExampleLedger_Append_quota() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, contact := range []string{"ctc_1", "ctc_2", "ctc_3"} {
		message := newAppend("xch_"+contact, eventstore.NoStream, &events.ContactMessaged{ContactID: contact, LineID: "ln_1"})
		message.Quotas = []eventstore.Quota{{Key: "new contacts of ln_1", Bucket: day, From: day, Add: 1, Limit: 2}}
		_, err := ledger.Append(ctx, message)
		var exceeded *eventstore.QuotaExceeded
		if errors.As(err, &exceeded) {
			fmt.Printf("%s: %d of %d used\n", contact, exceeded.Used, exceeded.Limit)
		}
	}
	// Output:
	// ctc_3: 2 of 2 used
}

// A client sends a request twice with the same idempotency key. The second append writes nothing and returns the stored
// answer.
func ExampleLedger_Append_idempotencyRecord() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	for range 2 {
		request := newAppend("lbl_"+uuid.NewString(), eventstore.NoStream, &events.LabelCreated{Name: "VIP"})
		request.Idempotency = &eventstore.IdempotencyRecord{
			Workspace: request.Workspace, Key: "create-vip", Fingerprint: []byte("hash of the request"), Ref: "VIP", Status: 201,
		}
		result, err := ledger.Append(ctx, request)
		var exists *eventstore.IdempotencyRecordExists
		switch {
		case errors.As(err, &exists):
			fmt.Println("answered before:", exists.Record.Status, exists.Record.Ref, "at position", exists.Record.Position)
		case err == nil:
			fmt.Println("appended at position", result.Last)
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// appended at position 1
	// answered before: 201 VIP at position 1
}

// A team's members are counted by folding the events of its stream. The second load reads no events again.
func ExampleAggregateLoader() {
	ctx := context.Background()
	ledger, closeLedger := openExampleLedger()
	defer closeLedger()

	if _, err := ledger.Append(ctx, newAppend("team_1", eventstore.NoStream, &events.TeamCreated{Name: "Support"})); err != nil {
		fmt.Println(err)
	}
	if _, err := ledger.Append(ctx, newAppend("team_1", 1, &events.TeamMemberAdded{})); err != nil {
		fmt.Println(err)
	}

	teams := eventstore.NewAggregateLoader(ledger, 100, func(members int, r *eventstore.Recorded) int {
		if _, added := r.Event.(*events.TeamMemberAdded); added {
			return members + 1
		}
		return members
	})
	team, err := teams.Load(ctx, "team_1")
	fmt.Println(team.Version, team.State, team.Cached, err)
	team, err = teams.LoadCached(ctx, "team_1")
	fmt.Println(team.Version, team.State, team.Cached, err)
	// Output:
	// 2 1 false <nil>
	// 2 1 true <nil>
}
