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
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/events"
	"ledgerline/processes"
	"ledgerline/service"
	"ledgerline/testkit/app"
	"ledgerline/testkit/hostile"
	"ledgerline/testkit/model"
)

// lease is short, so that the work of a node that was killed is soon taken over.
const lease = 2 * time.Second

// areas are the area codes of the load and the zones that decisions section 7 gives them.
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

	mu       sync.Mutex
	nodes    []*app.Node
	accepted map[string]bool
	canceled []string
	recent   []sent
	outs     []model.OptOut
}

// sent is a message that may be canceled.
type sent struct {
	ground *ground
	id     string
}

// ground is a workspace with its lines and people.
type ground struct {
	*app.Workspace
	live, test string // keys
	pools      []string
	people     []*person
	sandboxed  []*person // numbers for the test key
	paused     map[string]bool
	mu         sync.Mutex
}

// person is a number that is written to.
type person struct {
	phone  string
	shared bool       // with another workspace of the organisation
	mu     sync.Mutex // held while its consent changes
	id     string     // of the contact, once it is known
	out    int        // place of the opt-out that holds among all, from 1; 0 for none
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
		t: t, seed: seed, clock: clock.Frozen(start), model: model.New(zonesOf), accepted: map[string]bool{},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
	s.world = hostile.New(s.clock, seed)
	s.app = app.Start(t, app.Shards(shards), app.Limits(limits()), app.At(s.clock), app.Nodes(service.All, service.All), app.Killable(lease),
		app.Carrier(func(n *app.Node) processes.Carrier {
			return &hostile.Carrier{World: s.world, Gone: n.Gone(), Inbox: func() processes.Inbox { return processes.NewReports(n.App) }}
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
	for i := range len(second.people) / 3 {
		s.grounds[0].people[i].shared = true
		second.people[i] = &person{phone: s.grounds[0].people[i].phone, shared: true}
	}
	s.grounds = append(s.grounds, second)
	return s
}

// ground gives a workspace lines in all states, pools of both rotations, and people.
func (s *site) ground(w *app.Workspace, nth, people int) *ground {
	g := &ground{Workspace: w, paused: map[string]bool{}, pools: []string{w.PoolID}}
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
	r := rand.New(rand.NewPCG(s.seed, uint64(nth))) //nolint:gosec // repeatable on purpose
	for i := range people {
		pick := r.IntN(100)
		for _, a := range areas {
			if pick -= a.weight; pick < 0 {
				g.people = append(g.people, &person{phone: fmt.Sprintf("+1%s777%d%03d", a.code, 5+nth%5, i)})
				break
			}
		}
	}
	for i := range 12 {
		g.sandboxed = append(g.sandboxed, &person{phone: fmt.Sprintf("+1%s55501%02d", areas[i%5].code, 10*(nth%5)+i/5)})
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
		case <-n.Gone():
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

// request makes a write until it is answered, under one idempotency key.
func (s *site) request(r *rand.Rand, token, method, path string, body any) (status int, answer app.Map) {
	content, err := json.Marshal(body)
	require.NoError(s.t, err)
	key := fmt.Sprintf("k%x%x", r.Uint64(), r.Uint64())
	s.again(r, method+" "+path, func(n *app.Node) error {
		request, err := http.NewRequestWithContext(s.t.Context(), method, n.URL+path, bytes.NewReader(content))
		if err != nil {
			return err
		}
		request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
		response, err := s.http.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		answer = nil
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("%d %s: %w", response.StatusCode, raw, err)
		}
		status = response.StatusCode
		failed, _ := answer["error"].(app.Map)
		if status >= http.StatusInternalServerError || failed["code"] == "idempotency_conflict" {
			return fmt.Errorf("%d %s", status, raw)
		}
		return nil
	})
	return status, answer
}
