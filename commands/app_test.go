package commands_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/domain/message"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/test/testpg"
)

var noon = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)

// fixture is an organisation with a workspace, a live line and a user, on a ledger of its own.
type fixture struct {
	*commands.App
	t      *testing.T
	dsn    string
	ring   *eventstore.Keyring
	ledger *eventstore.Ledger
	clock  *clock.Movable
	org    uuid.UUID
	wsp    commands.CreatedWorkspace
	line   string
	user   uuid.UUID
}

const linePhone = "+12125550199"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ring, _, err := eventstore.NewKeyring()
	require.NoError(t, err)
	h := &fixture{t: t, dsn: testpg.Database(t), ring: ring, clock: clock.Frozen(noon)}
	h.App, h.ledger = h.node()
	made, err := h.CreateOrganisation(t.Context(), operator(), "Acme", "America/New_York")
	require.NoError(t, err)
	h.org = uuid.MustParse(made.Ref)
	h.wsp = h.workspace("Main")
	provisioned, err := h.ProvisionLine(t.Context(), h.live(), commands.ProvisionLine{Phone: linePhone, State: line.Active})
	require.NoError(t, err)
	h.line = provisioned.Ref
	made, err = h.CreateUser(t.Context(), h.live(), commands.CreateUser{
		FullName: "Ada Example", Email: "ada@example.com", Roles: map[uuid.UUID]organisation.Role{h.wsp.ID: organisation.Manager},
	})
	require.NoError(t, err)
	h.user = uuid.MustParse(made.Ref)
	return h
}

// node opens another node on the same database, with an empty cache.
func (h *fixture) node() (*commands.App, *eventstore.Ledger) {
	h.t.Helper()
	pool, err := pgxpool.New(context.Background(), h.dsn)
	require.NoError(h.t, err)
	ledger, err := eventstore.Open(context.Background(), eventstore.Config{Pool: pool, Keyring: h.ring, Clock: h.clock})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { ledger.Close(); pool.Close() })
	app, err := commands.New(commands.Config{Ledger: ledger, SMS: func(line.Line) bool { return true }})
	require.NoError(h.t, err)
	return app, ledger
}

func operator() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "operator", ID: "test"}, RequestID: "req_test"}
}

func system() commands.Request {
	return commands.Request{Actor: events.Actor{Type: "system"}, RequestID: "req_system"}
}

func (h *fixture) live() commands.Request {
	return commands.Request{
		Organisation: h.org, Workspace: h.wsp.ID, Actor: events.Actor{Type: "key", ID: "key_test"},
		RequestID: "req_test", IP: "192.0.2.7", UserAgent: "test/1",
	}
}

func (h *fixture) test() commands.Request {
	r := h.live()
	r.Test = true
	return r
}

func (h *fixture) workspace(name string) commands.CreatedWorkspace {
	h.t.Helper()
	r := operator()
	r.Organisation = h.org
	w, err := h.CreateWorkspace(h.t.Context(), r, name)
	require.NoError(h.t, err)
	return w
}

// in returns a request in another workspace of the organisation.
func (h *fixture) in(w commands.CreatedWorkspace) commands.Request {
	r := h.live()
	r.Workspace = w.ID
	return r
}

func (h *fixture) contact(phone string) string {
	h.t.Helper()
	made, err := h.CreateContact(h.t.Context(), h.live(), commands.CreateContact{Phone: phone})
	require.NoError(h.t, err)
	return made.Ref
}

func text(to string) commands.AcceptMessage {
	return commands.AcceptMessage{To: &to, Body: "hello", Source: "api"}
}

func (h *fixture) message(to string) string {
	h.t.Helper()
	q, err := h.AcceptMessage(h.t.Context(), h.live(), text(to))
	require.NoError(h.t, err)
	return q.Ref
}

func (h *fixture) says(from, body string) commands.ReceivedMessage {
	h.t.Helper()
	r, err := h.ReceiveMessage(h.t.Context(), system(), commands.InboundMessage{LinePhone: linePhone, From: from, Body: body})
	require.NoError(h.t, err)
	return r
}

func (h *fixture) state(messageID string) message.Message {
	h.t.Helper()
	m, err := h.FindMessage(h.t.Context(), messageID)
	require.NoError(h.t, err)
	return m
}

// history returns the events of the given types (default: all) after a position.
func (h *fixture) history(after int64, types ...string) []eventstore.Recorded {
	h.t.Helper()
	shard := h.ledger.ShardOf(h.org)
	head, err := h.ledger.Head(h.t.Context(), shard)
	require.NoError(h.t, err)
	found, _, err := h.ledger.ReadTypes(h.t.Context(), shard, eventstore.Point{Position: after}, head, types...)
	require.NoError(h.t, err)
	require.NoError(h.t, h.ledger.Decode(h.t.Context(), found))
	return found
}

func (h *fixture) head() int64 {
	h.t.Helper()
	head, err := h.ledger.Head(h.t.Context(), h.ledger.ShardOf(h.org))
	require.NoError(h.t, err)
	return head
}

func types(recorded []eventstore.Recorded) []string {
	names := make([]string, len(recorded))
	for i := range recorded {
		names[i] = recorded[i].Type
	}
	return names
}

// as returns a recorded event as its Go type.
func as[E any](h *fixture, r eventstore.Recorded) E {
	h.t.Helper()
	e, ok := r.Event.(E)
	require.True(h.t, ok, r.Type)
	return e
}

func number(i int) string { return fmt.Sprintf("+1415555%04d", 2000+i) }

func (h *fixture) key(env apikey.Env, scopes ...string) commands.IssuedAPIKey {
	h.t.Helper()
	k, err := h.CreateAPIKey(h.t.Context(), h.live(), commands.CreateAPIKey{Name: "k", Env: env, Scopes: scopes})
	require.NoError(h.t, err)
	return k
}
