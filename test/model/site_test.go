package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/identity"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
	"ledgerline/service"
	"ledgerline/test/app"
	"ledgerline/test/hostile"
	"ledgerline/test/model"
)

// lease is short, so that another node soon takes over the work of a killed node.
const lease = 2 * time.Second

// areas are the area codes of the load and the time zones in which their numbers may lie (rule SND-11).
var areas = []struct {
	code   string
	weight int
	zones  []string
}{
	{"212", 30, []string{"America/New_York"}},
	{"415", 20, []string{"America/Los_Angeles"}},
	{"312", 12, []string{"America/Chicago"}},
	{"808", 10, []string{"Pacific/Honolulu"}},
	{"907", 8, []string{"America/Adak", "America/Anchorage"}},
	{"605", 6, []string{"America/Denver", "America/North_Dakota/Center"}},
	{"602", 4, []string{"America/Phoenix"}}, // no summer time
	{"800", 6, []string{"America/New_York", "America/Los_Angeles"}},
	{"888", 4, []string{"America/New_York", "America/Los_Angeles"}},
}

func zonesOf(phone string) []string {
	for _, a := range areas {
		if phone[2:5] == a.code {
			return a.zones
		}
	}
	panic("no such area: " + phone)
}

// site is an installation of two nodes whose carrier is the hostile one.
type site struct {
	t     *testing.T
	app   *app.App
	clock *clock.Movable
	world *hostile.World
	model *model.Model
	http  *http.Client
	seed  uint64

	workspaces []*workspace
	numbers    atomic.Int64 // how many numbers were generated for people who change theirs

	mu       sync.Mutex
	nodes    []*app.Node
	canceled []string
	recent   []sentMessage
	ends     []model.End
}

// sentMessage is an accepted message that the load may cancel.
type sentMessage struct {
	workspace *workspace
	person    *person
	id        string
}

// org is an organisation, which several workspaces may share.
type org struct {
	mu   sync.Mutex
	undo []func(*rand.Rand) // changes of settings that have to be undone later, oldest first
}

// workspace is a workspace with its lines and people.
type workspace struct {
	*app.Workspace
	org        *org
	live, test string // keys
	identities []uuid.UUID
	tokens     []string // tokens of the identities

	pools     []string
	people    []*person
	sandboxed []*person // numbers for the test key
	paused    map[string]bool
	mu        sync.Mutex
}

// person is a recipient of messages.
type person struct {
	shared    bool       // whether another workspace of the organisation has a contact with the same number
	fixed     bool       // whether it is a sandbox number, which never changes
	mu        sync.Mutex // held while its consent or number changes, or it is erased
	optOutEnd int        // index in site.ends, from 1, of the opt-out in force; 0 for none
	numberEnd int        // index in site.ends, from 1, of the End for its previous number; 0 for none

	knownMu sync.Mutex // guards the fields below
	known
	other  string          // its previous number
	erased map[string]bool // ids of its contacts that were erased, or whose erasure is requested
}

// known is what the load knows of a person. The ids of contact and conversation are empty until an answer has named
// them.
type known struct{ phone, id, conversation string }

func (p *person) current() known {
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	return p.known
}

// setContact records the contact of a person's number, unless the number has changed or the contact is erased.
func (p *person) setContact(k known) {
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	if p.phone == k.phone && !p.erased[k.id] {
		p.known = k
	}
}

// wasErased reports whether this contact of the person is erased or about to be. With "" it reports this for any
// contact of the person.
func (p *person) wasErased(id string) bool {
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	return p.erased[id] || id == "" && len(p.erased) > 0
}

// limits returns sending limits that are low enough to be reached every day.
func limits() line.Limits {
	l := line.DefaultLimits()
	two, four := 2, 4
	l.WarmupCurve = []events.WarmupStep{{FromDay: 1, ToDay: &two, NewPerDay: 4}, {FromDay: 3, ToDay: &four, NewPerDay: 8}, {FromDay: 5, NewPerDay: 12}}
	l.NewContactsPerHour, l.NewContactsPerDay, l.NewContactWindowDays, l.SendsPerDay = 6, 12, 3, 70
	l.IdenticalTextMaxPerDay, l.UnansweredStreakPause = 5, 8
	return l
}

func open(t *testing.T, shards, people int, seed uint64, start time.Time) *site {
	t.Helper()
	s := &site{
		t: t, seed: seed, clock: clock.Frozen(start), model: model.New(zonesOf),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	s.world = hostile.New(s.clock, seed)
	s.app = app.Start(t, app.Shards(shards), app.Limits(limits()), app.WithClock(s.clock), app.Nodes(service.All, service.All), app.Killable(lease), app.LinesSendSMS(),
		app.Carrier(func(n *app.Node) carrier.Carrier {
			return &hostile.Carrier{World: s.world, Killed: n.Killed(), Inbox: func() carrier.Inbox { return processes.NewInbox(n.App) }}
		}))
	t.Cleanup(s.http.CloseIdleConnections)
	s.nodes = append(s.nodes, s.app.Nodes...)

	// One organisation on every shard, and at least two. The first one gets a second workspace with some of the same
	// people.
	ledger := s.nodes[0].Ledger
	workspaces := []*app.Workspace{s.app.Workspace}
	taken := map[int]bool{ledger.ShardOf(s.app.Organisation): true}
	for len(taken) < shards || len(workspaces) < 2 {
		w := s.app.NewOrganisation(fmt.Sprint("Organisation ", len(workspaces)))
		if shard := ledger.ShardOf(w.Organisation); !taken[shard] || shards == 1 {
			taken[shard] = true
			workspaces = append(workspaces, w)
		}
	}
	for i, w := range workspaces {
		s.workspaces = append(s.workspaces, s.newWorkspace(w, i, people/(len(workspaces)+1)))
	}
	second := s.newWorkspace(s.app.NewWorkspace("Second"), len(workspaces), people/(len(workspaces)+1))
	second.org = s.workspaces[0].org
	for i := range len(second.people) / 3 {
		s.workspaces[0].people[i].shared = true
		second.people[i] = newPerson(s.workspaces[0].people[i].phone)
		second.people[i].shared = true
	}
	s.workspaces = append(s.workspaces, second)
	return s
}

func newPerson(phone string) *person {
	return &person{known: known{phone: phone}, erased: map[string]bool{}}
}

// newWorkspace adds lines in several states, pools of both rotations, service identities and people to a workspace.
func (s *site) newWorkspace(w *app.Workspace, nth, people int) *workspace {
	ws := &workspace{Workspace: w, org: &org{}, paused: map[string]bool{}, pools: []string{w.PoolID}}
	scopes := []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin}
	ws.live, ws.test = w.NewKey(apikey.Live, nil, scopes...).Secret, w.NewKey(apikey.Test, nil, scopes...).Secret
	for i, p := range []struct {
		rotation line.Rotation
		fallback line.FallbackMode
		lines    []line.State
	}{
		{line.RoundRobin, line.FallbackNotChatOrFailed, []line.State{line.Active, line.Active, line.Ready}},
		{line.Sticky, line.FallbackNotChat, []line.State{line.Active, line.Warming}},
		{"", "", []line.State{line.Ready, line.Warming}}, // lines of the default pool
	} {
		pool := w.PoolID
		if p.rotation != "" {
			made, err := s.nodes[0].App.CreatePool(s.t.Context(), w.Operator(), commands.CreatePool{Name: fmt.Sprint("Pool ", i), Rotation: p.rotation, Fallback: p.fallback})
			require.NoError(s.t, err)
			pool = made.Ref
			ws.pools = append(ws.pools, pool)
		}
		for _, state := range p.lines {
			l := app.Line{Phone: s.app.Phone()}
			made, err := s.nodes[0].App.ProvisionLine(s.t.Context(), w.Operator(), commands.ProvisionLine{Phone: l.Phone, PoolID: pool, State: state})
			require.NoError(s.t, err)
			l.ID = made.Ref
			w.Lines = append(w.Lines, l)
		}
	}
	few, more := int64(2), int64(4)
	for _, in := range []commands.CreateIdentity{{DailyLimit: &few}, {DailyLimit: &more, AllowedLineIDs: []string{w.Lines[0].ID, w.Lines[3].ID, w.Lines[6].ID}}} {
		in.Name, in.Kind, in.Env, in.Scopes = "Client", identity.MCPClient, apikey.Live, []string{"read", "send"}
		made, err := s.nodes[0].App.CreateIdentity(s.t.Context(), w.Operator(), in)
		require.NoError(s.t, err)
		ws.identities, ws.tokens = append(ws.identities, made.Identity.ID), append(ws.tokens, made.Token.Secret)
	}
	r := rand.New(rand.NewPCG(s.seed, uint64(nth))) //nolint:gosec // repeatable on purpose
	for i := range people {
		pick := r.IntN(100)
		for _, a := range areas {
			if pick -= a.weight; pick < 0 {
				ws.people = append(ws.people, newPerson(fmt.Sprintf("+1%s777%d%03d", a.code, 5+nth%5, i)))
				break
			}
		}
	}
	for i := range 12 {
		ws.sandboxed = append(ws.sandboxed, newPerson(fmt.Sprintf("+1%s55501%02d", areas[i%5].code, 10*(nth%5)+i/5)))
		ws.sandboxed[i].fixed = true
	}
	return ws
}

// randomNode returns one of the nodes that are running.
func (s *site) randomNode(r *rand.Rand) *app.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[r.IntN(len(s.nodes))]
}

var errNodeKilled = errors.New("the node was killed")

// onNode calls do with a context that ends when the node is killed.
func onNode(ctx context.Context, n *app.Node, do func(context.Context, *app.Node) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-n.Killed():
			cancel(errNodeKilled)
		case <-over:
		}
	}()
	return do(ctx, n)
}

// retry calls try with random nodes until it succeeds. An error is expected while a node is killed or overloaded; after
// 2,000 errors the test fails.
func (s *site) retry(r *rand.Rand, what string, try func(*app.Node) error) {
	var err error
	for range 2000 {
		if err = try(s.randomNode(r)); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Errorf("%s: %v", what, err)
}

// session returns a session token of the workspace's owner that is valid for longer than a burst.
func (s *site) session(ws *workspace) string {
	return s.app.Sign(jwt.SigningMethodHS256, app.Secret, jwt.MapClaims{
		"sub": ws.Users[organisation.Owner].String(), "iss": app.Issuer, "aud": app.Audience, "exp": s.clock.Now().Add(20 * time.Hour).Unix(),
	})
}

// request repeats a write under one idempotency key until it is answered, and returns the answer; code is the error
// code of a refusal. A paused organisation also refuses the retry of a write that was executed and whose answer was
// lost. In that case request undoes a change of the organisation's settings and retries.
func (s *site) request(r *rand.Rand, ws *workspace, token, method, path string, body app.Map) (status int, answer app.Map, code string) {
	var content []byte
	if body != nil {
		var err error
		content, err = json.Marshal(body)
		require.NoError(s.t, err)
	}
	key := fmt.Sprintf("k%x%x", r.Uint64(), r.Uint64())
	lost := false
	s.retry(r, method+" "+path, func(n *app.Node) (err error) {
		defer func() { lost = lost || err != nil }()
		request, err := http.NewRequestWithContext(s.t.Context(), method, n.URL+path, bytes.NewReader(content))
		if err != nil {
			return err
		}
		request.Header = http.Header{
			"Authorization": {"Bearer " + token}, "X-Workspace-Id": {ws.ID.String()}, "Content-Type": {"application/json"}, "Idempotency-Key": {key},
		}
		response, err := s.http.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		answer, code = nil, ""
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("%d %s: %w", response.StatusCode, raw, err)
		}
		status = response.StatusCode
		if failed, refused := answer["error"].(app.Map); refused {
			code, _ = failed["code"].(string)
		}
		if status >= http.StatusInternalServerError || code == "idempotency_conflict" {
			return fmt.Errorf("%d %s", status, raw)
		}
		if lost && code == "org_paused" {
			for _, undo := range ws.org.takeUndos(1) {
				undo(r)
			}
			return errors.New(code)
		}
		return nil
	})
	return status, answer, code
}

// change sends a write and reports whether it succeeded. A refusal fails the test, unless its code is in refusals or
// the organisation is paused.
func (s *site) change(r *rand.Rand, ws *workspace, method, path string, body app.Map, refusals ...string) (done bool) {
	status, answer, code := s.request(r, ws, ws.live, method, path, body)
	done = status == http.StatusOK
	if !done && code != "org_paused" && !slices.Contains(refusals, code) {
		s.t.Errorf("%s %s: %d %v", method, path, status, answer)
	}
	return done
}

// asOperator runs a command of the operator on a random node until it succeeds.
func (s *site) asOperator(r *rand.Rand, do func(context.Context, *commands.App) error) {
	s.retry(r, "a command of the operator", func(n *app.Node) error {
		return onNode(s.t.Context(), n, func(ctx context.Context, n *app.Node) error { return do(ctx, n.App) })
	})
}
