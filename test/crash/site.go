package crash

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/service"
)

// numbers is how many numbers the callers write to.
const numbers = 300

// tenant is an organisation with its workspace, and the numbers that are written to in it.
type tenant struct {
	org, workspace uuid.UUID
	shard          int
	live, test     string // secrets of keys
	byScript       map[string][]*contact
	contacts       []*contact
}

// contact is a number and what the callers have learned of it.
type contact struct {
	phone   string
	sandbox bool

	mu sync.Mutex
	id string // "" until an answer has named it
}

func (c *contact) known() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// setID records the id that an answer gives for the number's contact, which must never change.
func (c *contact) setID(id string, v *violations) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		c.id = id
	}
	if c.id != id {
		v.add("two contacts with one number", "%s and %s", c.id, id)
	}
}

// open starts the server, makes the installation and its tenants, and starts the first node.
func (t *trial) open(ctx context.Context) (err error) {
	t.server = &server{dir: t.dir}
	if err := t.server.start(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.server.stop() //nolint:contextcheck // bounded by itself
		}
	}()
	if err := t.server.running.EnsureDatabase(ctx, database); err != nil {
		return err
	}
	ring, text, err := eventstore.NewKeyring()
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.keyringFile(), text, 0o600); err != nil {
		return fmt.Errorf("write the keyring: %w", err)
	}
	t.ring = ring
	if err := t.createTenants(ctx); err != nil {
		return err
	}
	return t.startNode(ctx)
}

// close kills the node if it still runs, and stops the server.
func (t *trial) close() {
	select {
	case <-t.node.ended:
	default:
		t.node.kill()
	}
	t.server.stop()
}

// nodeWithoutRoles starts a node without roles, for commands and checks that the API does not offer.
func (t *trial) nodeWithoutRoles(ctx context.Context) (*service.Node, error) {
	return service.Start(ctx, service.Config{
		DSN: t.server.dsn(), Migrate: true, Keyring: t.ring, Shards: t.shards, Logger: slog.New(slog.DiscardHandler),
	})
}

// createTenants creates an organisation on every shard, and at least two.
func (t *trial) createTenants(ctx context.Context) error {
	n, err := t.nodeWithoutRoles(ctx)
	if err != nil {
		return err
	}
	defer n.Stop()
	for len(t.tenants) < max(2, t.shards) {
		org, err := n.App.CreateOrganisation(ctx, commands.Request{Actor: operator}, "Crash", "America/New_York")
		if err != nil {
			return err
		}
		id, err := uuid.Parse(org.Ref)
		if err != nil {
			return fmt.Errorf("the organisation's id: %w", err)
		}
		shard := n.Ledger.ShardOf(id)
		if t.shards > 1 && slices.ContainsFunc(t.tenants, func(o *tenant) bool { return o.shard == shard }) {
			continue
		}
		one := &tenant{org: id, shard: shard, byScript: map[string][]*contact{}}
		if err := one.create(ctx, n.App, len(t.tenants)); err != nil {
			return err
		}
		t.tenants = append(t.tenants, one)
	}
	for i := range numbers {
		t.tenants[i%len(t.tenants)].addNumber(i, numbers/len(t.tenants))
	}
	return nil
}

// newPerHour is how many new contacts a line may have in an hour: few enough that many messages wait for capacity.
const newPerHour = 20

// sendingLimits returns limits with which every message can leave within the day, and many are deferred before.
func sendingLimits() line.Limits {
	const plenty = 1 << 30
	l := line.DefaultLimits()
	l.NewContactsPerHour, l.NewContactsPerDay, l.SendsPerDay, l.IdenticalTextMaxPerDay = newPerHour, plenty, plenty, plenty
	l.PreReplyMaxMessages, l.PreReplyMaxChars, l.UnansweredStreakPause, l.ReplyRatioMin = plenty, plenty, plenty, 0
	return l
}

// opening returns where the service's clock begins: at 9:05 AM in Los Angeles, so that contacts may be written to for
// most of a day.
func opening(now time.Time) time.Time {
	coast, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err) // it is built in
	}
	year, month, day := now.In(coast).Date()
	return time.Date(year, month, day+1, 9, 5, 0, 0, coast)
}

var operator = events.Actor{Type: "operator", ID: "crash"}

func (o *tenant) create(ctx context.Context, app *commands.App, index int) error {
	by := commands.Request{Organisation: o.org, Actor: operator, RequestID: "crash"}
	w, err := app.CreateWorkspace(ctx, by, "Crash")
	if err != nil {
		return err
	}
	o.workspace, by.Workspace = w.ID, w.ID
	if _, err := app.SetSendingLimits(ctx, by, sendingLimits()); err != nil {
		return err
	}
	for i := range 3 {
		if _, err := app.ProvisionLine(ctx, by, commands.ProvisionLine{
			Phone: fmt.Sprintf("+1212777%04d", 10*index+i), State: line.Active, Carrier: service.SimulatorCarrier,
		}); err != nil {
			return err
		}
	}
	for env, secret := range map[apikey.Env]*string{apikey.Live: &o.live, apikey.Test: &o.test} {
		key, err := app.CreateAPIKey(ctx, by, commands.CreateAPIKey{Name: "Crash", Env: env, Scopes: []string{"read", "send", "admin"}})
		if err != nil {
			return err
		}
		*secret = key.Secret
	}
	return nil
}

// numberScripts are the scripts of the recipients' numbers (rule SND-60): the percentage of the numbers that have a
// script, and the percentage of the messages that go to them. Few messages go to numbers that fail twice: each of them
// holds up later messages of its contact for two and a half minutes of the clock.
var numberScripts = []struct {
	name            string
	digits          int // -1: an ordinary number
	share, messages int
}{
	{"plain", -1, 25, 25},
	{"sandbox", 0, 8, 8},
	{"rejected", 85, 4, 4},
	{"flaky", 86, 15, 1},
	{"silent", 87, 25, 30}, // there is no receipt, so an attempt that a crash interrupted must be looked up at the carrier
	{"late", 89, 8, 10},
	{"stop", 90, 7, 11},
	{"echo", 93, 8, 11},
}

// addNumber adds the i-th of all numbers to the tenant, which gets this many of them in total.
func (o *tenant) addNumber(i, of int) {
	place := len(o.contacts) * 100 / of
	for _, e := range numberScripts {
		if place -= e.share; place >= 0 {
			continue
		}
		c := &contact{phone: fmt.Sprintf("+1415777%04d", i)}
		if e.digits >= 0 {
			c.phone, c.sandbox = fmt.Sprintf("+1%03d55501%02d", 200+i, e.digits), true
		}
		o.contacts = append(o.contacts, c)
		o.byScript[e.name] = append(o.byScript[e.name], c)
		return
	}
}
