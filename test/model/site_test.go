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

// lease is short, so that the work of a node that was killed is soon taken over.
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

// site is an installation of two nodes amid a hostile world.
type site struct {
	t     *testing.T
	app   *app.App
	clock *clock.Movable
	world *hostile.World
	model *model.Model
	http  *http.Client
	seed  uint64

	grounds []*ground
	numbers atomic.Int64 // that were made up for people who change theirs

	mu       sync.Mutex
	nodes    []*app.Node
	canceled []string
	recent   []sent
	ends     []model.End
}

// sent is a message that may be canceled.
type sent struct {
	ground *ground
	person *person
	id     string
}

// business is an organisation.
type business struct {
	mu   sync.Mutex
	undo []func(*rand.Rand) // what was changed there and is to be changed back
}

// ground is a workspace with its lines and people.
type ground struct {
	*app.Workspace
	business   *business
	live, test string // keys
	identities []uuid.UUID
	tokens     []string // theirs
	pools      []string
	people     []*person
	sandboxed  []*person // numbers for the test key
	paused     map[string]bool
	mu         sync.Mutex
}

// person is somebody who is written to.
type person struct {
	shared bool       // with another workspace of the organisation
	fixed  bool       // it is a sandbox number
	mu     sync.Mutex // held while its consent or its number changes, or it is erased
	out    int        // place of the opt-out that holds among all ends, from 1; 0 for none
	left   int        // place of the end of its other number

	is sync.Mutex // held while what it is known by is looked at
	known
	other  string          // the number that it had before
	erased map[string]bool // contacts that it was
}

// known is what a person is known by. The ids are those of the contact, once it is known.
type known struct{ phone, id, conversation string }

func (p *person) now() known {
	p.is.Lock()
	defer p.is.Unlock()
	return p.known
}

// met notes which contact a number is, unless that is over.
func (p *person) met(k known) {
	p.is.Lock()
	defer p.is.Unlock()
	if p.phone == k.phone && !p.erased[k.id] {
		p.known = k
	}
}

// was tells that the person was this contact, and that it is erased or about to be; "" is any.
func (p *person) was(id string) bool {
	p.is.Lock()
	defer p.is.Unlock()
	return p.erased[id] || id == "" && len(p.erased) > 0
}

// limits are low enough to be met every day.
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
	s.app = app.Start(t, app.Shards(shards), app.Limits(limits()), app.WithClock(s.clock), app.Nodes(service.All, service.All), app.Killable(lease),
		app.Carrier(func(n *app.Node) carrier.Carrier {
			return &hostile.Carrier{World: s.world, Killed: n.Killed(), Inbox: func() carrier.Inbox { return processes.NewInbox(n.App) }}
		}))
	t.Cleanup(s.http.CloseIdleConnections)
	s.nodes = append(s.nodes, s.app.Nodes...)

	// An organisation on every shard, at least two, and a second workspace of the first one with some of the same people.
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
		s.grounds = append(s.grounds, s.ground(w, i, people/(len(workspaces)+1)))
	}
	second := s.ground(s.app.NewWorkspace("Second"), len(workspaces), people/(len(workspaces)+1))
	second.business = s.grounds[0].business
	for i := range len(second.people) / 3 {
		s.grounds[0].people[i].shared = true
		second.people[i] = newPerson(s.grounds[0].people[i].phone)
		second.people[i].shared = true
	}
	s.grounds = append(s.grounds, second)
	return s
}

func newPerson(phone string) *person {
	return &person{known: known{phone: phone}, erased: map[string]bool{}}
}

// ground gives a workspace lines in all states, pools of both rotations, service identities, and people.
func (s *site) ground(w *app.Workspace, nth, people int) *ground {
	g := &ground{Workspace: w, business: &business{}, paused: map[string]bool{}, pools: []string{w.PoolID}}
	scopes := []apikey.Scope{apikey.Read, apikey.Send, apikey.Admin}
	g.live, g.test = w.NewKey(apikey.Live, nil, scopes...).Secret, w.NewKey(apikey.Test, nil, scopes...).Secret
	for i, p := range []struct {
		rotation line.Rotation
		fallback line.FallbackMode
		lines    []line.State
	}{
		{line.RoundRobin, line.FallbackNotChatOrFailed, []line.State{line.Active, line.Active, line.Ready}},
		{line.Sticky, line.FallbackNotChat, []line.State{line.Active, line.Warming}},
		{"", "", []line.State{line.Ready, line.Warming}}, // the default pool's
	} {
		pool := w.PoolID
		if p.rotation != "" {
			made, err := s.nodes[0].App.CreatePool(s.t.Context(), w.Operator(), commands.CreatePool{Name: fmt.Sprint("Pool ", i), Rotation: p.rotation, Fallback: p.fallback})
			require.NoError(s.t, err)
			pool = made.Ref
			g.pools = append(g.pools, pool)
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
		g.identities, g.tokens = append(g.identities, made.Identity.ID), append(g.tokens, made.Token.Secret)
	}
	r := rand.New(rand.NewPCG(s.seed, uint64(nth))) //nolint:gosec // repeatable on purpose
	for i := range people {
		pick := r.IntN(100)
		for _, a := range areas {
			if pick -= a.weight; pick < 0 {
				g.people = append(g.people, newPerson(fmt.Sprintf("+1%s777%d%03d", a.code, 5+nth%5, i)))
				break
			}
		}
	}
	for i := range 12 {
		g.sandboxed = append(g.sandboxed, newPerson(fmt.Sprintf("+1%s55501%02d", areas[i%5].code, 10*(nth%5)+i/5)))
		g.sandboxed[i].fixed = true
	}
	return g
}

// alive gives a node that lives.
func (s *site) alive(r *rand.Rand) *app.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[r.IntN(len(s.nodes))]
}

var errGone = errors.New("the node is gone")

// on does something through a node, until that is killed.
func on(ctx context.Context, n *app.Node, do func(context.Context, *app.Node) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-n.Killed():
			cancel(errGone)
		case <-over:
		}
	}()
	return do(ctx, n)
}

// again repeats what may fail because a node is killed, or because much is going on, with another node.
func (s *site) again(r *rand.Rand, what string, try func(*app.Node) error) {
	var err error
	for range 2000 {
		if err = try(s.alive(r)); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Errorf("%s: %v", what, err)
}

// session is a token of the owner's, good for as long as a burst may take.
func (s *site) session(g *ground) string {
	return s.app.Sign(jwt.SigningMethodHS256, app.Secret, jwt.MapClaims{
		"sub": g.Users[organisation.Owner].String(), "iss": app.Issuer, "aud": app.Audience, "exp": s.clock.Now().Add(20 * time.Hour).Unix(),
	})
}

// request makes a write until it is answered, under one idempotency key, and gives the code of a refusal too. What was
// done without an answer is not told while its organisation is paused: the pause is ended then.
func (s *site) request(r *rand.Rand, g *ground, token, method, path string, body app.Map) (status int, answer app.Map, code string) {
	var content []byte
	if body != nil {
		var err error
		content, err = json.Marshal(body)
		require.NoError(s.t, err)
	}
	key := fmt.Sprintf("k%x%x", r.Uint64(), r.Uint64())
	lost := false
	s.again(r, method+" "+path, func(n *app.Node) (err error) {
		defer func() { lost = lost || err != nil }()
		request, err := http.NewRequestWithContext(s.t.Context(), method, n.URL+path, bytes.NewReader(content))
		if err != nil {
			return err
		}
		request.Header = http.Header{
			"Authorization": {"Bearer " + token}, "X-Workspace-Id": {g.ID.String()}, "Content-Type": {"application/json"}, "Idempotency-Key": {key},
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
			for _, undo := range g.business.take(1) {
				undo(r)
			}
			return errors.New(code)
		}
		return nil
	})
	return status, answer, code
}

// change makes a write that must be done, unless it is refused with one of these codes or the organisation is paused.
func (s *site) change(r *rand.Rand, g *ground, method, path string, body app.Map, refusals ...string) (done bool) {
	status, answer, code := s.request(r, g, g.live, method, path, body)
	done = status == http.StatusOK
	if !done && code != "org_paused" && !slices.Contains(refusals, code) {
		s.t.Errorf("%s %s: %d %v", method, path, status, answer)
	}
	return done
}

// operate has the operator do something.
func (s *site) operate(r *rand.Rand, do func(context.Context, *commands.App) error) {
	s.again(r, "the operator", func(n *app.Node) error {
		return on(s.t.Context(), n, func(ctx context.Context, n *app.Node) error { return do(ctx, n.App) })
	})
}
