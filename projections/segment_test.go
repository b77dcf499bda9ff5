package projections_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/contact"
	"ledgerline/domain/organisation"
	"ledgerline/domain/segment"
	"ledgerline/projections"
	"ledgerline/test/app"
)

// people makes random contacts and random definitions that often match each other.
type people struct {
	*rand.Rand
	owners []uuid.UUID
	lines  []string
	labels map[string]uuid.UUID
}

var (
	words = []string{"", "a", "Ada", "ADA", "École", "éCOLE", "Straße", "STRASSE", "İx", "i̇x", "ΣΑΣ", "σας", "100%", "1_0", `b\c`, `\`, "%", "_", "12", "12.0", "true", "null",
		"2026-03-01", "2026-03-02T12:00:00-05:00", "1990-05-01", "o'hara \"q\"", "日本", "ada lovelace"}
	numbers = []any{0.0, -1.0, 12.0, 12.5, 1e15, 0.1, 1e-7}
	keys    = []string{"plan", "a.b", "seats", "x/y", "ключ"}
	names   = []string{"vip", "New", "Zoë", "old"}
)

func pick[T any](p *people, list []T) T { return list[p.IntN(len(list))] }

func maybe[T any](p *people, value T) *T {
	if p.IntN(3) == 0 {
		return nil
	}
	return &value
}

func (p *people) value(depth int) any {
	switch n := p.IntN(9); {
	case n < 4:
		return pick(p, words)
	case n < 6:
		return pick(p, numbers)
	case n == 6:
		return p.IntN(2) == 0
	case n == 7 && depth > 0:
		list := []any{}
		for range p.IntN(4) {
			list = append(list, p.value(depth-1))
		}
		return list
	case n == 8 && depth > 0:
		return map[string]any{pick(p, keys): p.value(depth - 1)}
	}
	return nil
}

// node is a random definition as JSON decodes it.
func (p *people) node(depth int) map[string]any {
	if depth > 1 && p.IntN(2) == 0 {
		if p.IntN(4) == 0 {
			return map[string]any{"not": p.node(depth - 1)}
		}
		list := []any{}
		for range 1 + p.IntN(3) {
			list = append(list, p.node(depth-1))
		}
		return map[string]any{pick(p, []string{"all", "any"}): list}
	}
	for {
		leaf := p.leaf()
		if _, err := segment.Parse(leaf, ""); err == nil {
			return leaf
		}
	}
}

func (p *people) leaf() map[string]any {
	field := pick(p, []string{"phone", "first_name", "last_name", "company", "email", "consent_status", "labels", "labels", "owner_user_id", "assigned_line_id",
		"created_at", "last_inbound_at", "last_outbound_at", "first_reply_at", "chat_capable", "fields.", "fields.", "fields.", "fields."})
	op := pick(p, []string{"eq", "ne", "contains", "not_contains", "starts_with", "in", "exists", "gt", "lt", "before", "after", "within_days"})
	value := func() any {
		switch {
		case op == "exists" || field == "chat_capable":
			return p.IntN(2) == 0
		case op == "within_days":
			return float64(1 + p.IntN(4))
		case op == "before" || op == "after":
			return pick(p, []string{"2026-03-01T17:00:00Z", "2026-02-28", "2026-03-02T17:00:00.000Z", "1990-05-01"})
		case field == "labels":
			return pick(p, names)
		case field == "consent_status":
			return pick(p, []string{"unknown", "opted_in", "opted_out"})
		case field == "owner_user_id":
			return pick(p, p.owners).String()
		case field == "assigned_line_id":
			return pick(p, p.lines)
		case field == "phone":
			return pick(p, []string{"+1415777", "7", "000", "+14157770001", "(415) 777-0002"})
		}
		return p.value(0)
	}
	key := field
	if field == "fields." {
		key += pick(p, keys)
	}
	if op != "in" {
		return map[string]any{"field": key, "op": op, "value": value()}
	}
	list := []any{}
	for range 1 + p.IntN(3) {
		list = append(list, value())
	}
	return map[string]any{"field": key, "op": op, "value": list}
}

// contact creates a random contact in the service, and returns it as definitions see it in memory.
func (p *people) contact(t *testing.T, a *app.App) (string, *segment.Contact) {
	t.Helper()
	c := &segment.Contact{Phone: a.Phone(), FirstName: maybe(p, pick(p, words)), LastName: maybe(p, pick(p, words)), Company: maybe(p, pick(p, words)),
		Email: maybe(p, pick(p, words)), ConsentStatus: "unknown", Fields: map[string]any{}}
	for _, key := range keys {
		if p.IntN(2) == 0 {
			c.Fields[key] = p.value(2)
		}
	}
	var labels []string
	for _, name := range names {
		if p.IntN(3) == 0 {
			labels = append(labels, name)
			c.LabelIDs = append(c.LabelIDs, p.labels[name])
		}
	}
	c.OwnerUserID = maybe(p, pick(p, p.owners))
	node := a.Nodes[0].App
	made, err := node.CreateContact(t.Context(), a.Operator(), commands.CreateContact{Phone: c.Phone, FirstName: c.FirstName, LastName: c.LastName})
	require.NoError(t, err)
	_, err = node.UpdateContact(t.Context(), a.Operator(), made.Ref, commands.UpdateContact{
		Company: contact.Set(c.Company), Email: contact.Set(c.Email), Owner: contact.Set(c.OwnerUserID), Fields: c.Fields, Labels: append([]string{}, labels...),
	})
	require.NoError(t, err)
	at := func() *time.Time {
		return maybe(p, app.Noon.Add(-time.Duration(p.IntN(4))*segment.Day+time.Duration(p.IntN(3)-1)*time.Millisecond))
	}
	c.ConsentStatus = pick(p, []string{"unknown", "opted_in", "opted_out"})
	c.AssignedLineID, c.ChatCapable = maybe(p, pick(p, p.lines)), maybe(p, p.IntN(2) == 0)
	c.CreatedAt, c.LastInboundAt, c.LastOutboundAt, c.FirstReply = at(), at(), at(), at()
	if c.CreatedAt == nil {
		c.CreatedAt = &app.Noon
	}
	require.NoError(t, a.Nodes[0].Store.WaitForHead(t.Context(), made.Shard, projections.Contacts))
	a.Exec(`update read.contacts set consent_status = $2, assigned_line_id = $3, chat_capable = $4, created_at = $5, last_inbound_at = $6,
		last_outbound_at = $7, first_reply_at = $8 where id = $1`, made.Ref, c.ConsentStatus, c.AssignedLineID, c.ChatCapable, c.CreatedAt, c.LastInboundAt, c.LastOutboundAt, c.FirstReply)
	return made.Ref, c
}

func TestASegmentHasTheSameContactsInSQLAndInMemory(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	const contacts, definitions = 150, 250
	seed := uint64(time.Now().UnixNano())                                              //nolint:forbidigo,gosec // a seed that is printed when the test fails
	p := &people{Rand: rand.New(rand.NewPCG(seed, 7)), labels: map[string]uuid.UUID{}} //nolint:gosec // repeatable
	for _, role := range []organisation.Role{organisation.Agent, organisation.Manager} {
		p.owners = append(p.owners, a.Users[role])
	}
	for _, l := range a.Lines {
		p.lines = append(p.lines, l.ID)
	}
	node, viewer := a.Nodes[0], projections.Viewer{Workspace: a.ID, Shard: 0}
	for _, name := range names {
		made, err := node.App.CreateLabel(t.Context(), a.Operator(), name, nil)
		require.NoError(t, err)
		p.labels[name] = uuid.MustParse(made.Ref)
	}
	known := map[string]*segment.Contact{}
	for range contacts {
		id, c := p.contact(t, a)
		known[id] = c
	}
	_, err := node.App.DeleteLabel(t.Context(), a.Operator(), p.labels["old"])
	require.NoError(t, err)
	for _, c := range known {
		c.LabelIDs = without(c.LabelIDs, p.labels["old"])
	}
	some := 0
	for n := range definitions {
		definition := p.node(3)
		text, err := json.Marshal(definition)
		require.NoError(t, err)
		about := fmt.Sprintf("seed %d: %s", seed, text)
		parsed, err := segment.Parse(definition, "")
		require.NoError(t, err, about)
		if parsed.BindLabels(func(name string) (uuid.UUID, bool) { return p.labels[name], name != "old" }) != nil {
			continue // it names the deleted label
		}
		made, err := node.App.CreateSegment(t.Context(), a.Operator(), fmt.Sprint(n), definition)
		require.NoError(t, err, about)
		require.NoError(t, node.Store.WaitForPosition(t.Context(), made.Shard, made.Position, projections.Segments, projections.Contacts))
		want := []string{}
		for id, c := range known {
			if parsed.Matches(c, app.Noon) {
				want = append(want, id)
			}
		}
		if len(want) > 0 && len(want) < contacts {
			some++
		}
		page, err := node.Store.Contacts(t.Context(), viewer, projections.ContactFilter{SegmentID: made.Ref}, nil, contacts)
		require.NoError(t, err, about)
		got := []string{}
		for i := range page.Rows {
			got = append(got, page.Rows[i].ID)
		}
		require.ElementsMatch(t, want, got, about)
		shown, found, err := node.Store.Segment(t.Context(), viewer, made.Ref)
		require.NoError(t, err, about)
		require.True(t, found)
		require.NotNil(t, shown.ContactCount, about)
		require.EqualValues(t, len(want), *shown.ContactCount, about)
	}
	require.Greater(t, some, definitions/4, "definitions that mean some of the contacts, and not all")
}

func without(ids []uuid.UUID, id uuid.UUID) (left []uuid.UUID) {
	for _, one := range ids {
		if one != id {
			left = append(left, one)
		}
	}
	return left
}
