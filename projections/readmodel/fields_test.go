package readmodel

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
)

type card struct {
	Title string `json:"title"`
	Lines int    `json:"lines"`
}

type base struct {
	ID string `json:"id" sql:"uuid not null"`
}

type thing struct {
	base
	From      *string  `json:"from" column:"sender" sql:"text"`
	Card      card     `json:"card"`
	Labels    []string `json:"labels"`
	SeenAt    *string  `json:"seen_at" format:"date-time" sql:"timestamptz" merge:"latest"`
	Shown     bool     `json:"shown"`
	Order     int64    `json:"-" column:"position"`
	unrelated int
}

var thingsTable = TableOf[thing]("things", []string{"id"}, Column{Name: "position", Type: "bigint not null"}, Column{Name: "title", Type: "text"})

func TestStructDefinesTableAndSelection(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Column{
		{Name: "id", Type: "uuid not null"}, {Name: "sender", Type: "text"}, {Name: "seen_at", Type: "timestamptz", Merge: Latest},
		{Name: "position", Type: "bigint not null"}, {Name: "title", Type: "text"},
	}, thingsTable.Columns)
	s := Select[thing](thingsTable, "x", map[string]string{"card.title": "x.title", "card.lines": "7", "labels": "array['a']", "shown": SetAfterScan})
	require.Equal(t, "x.id::text, x.sender, x.title, 7, array['a'], x.seen_at, x.position", s.SQL)
	require.Equal(t, []string{"sender", "position"}, Tagged[thing]("column"))

	v, err := s.FromRow(Row{"id": "a", "sender": new("b"), "seen_at": nil, "position": 3})
	require.NoError(t, err)
	require.Equal(t, "a", v.ID)
	require.Equal(t, "b", *v.From)
	require.Zero(t, v.unrelated)
}

func TestInvalidFieldOrKeyPanics(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "readmodel: readmodel.thing.card.title is no column of table things and has no expression", func() {
		Select[thing](&Table{Name: "things", Columns: thingsTable.Columns[:3]}, "x", nil)
	}, "a field without a column")
	require.PanicsWithValue(t, `readmodel: readmodel.base has no field "idd"`, func() {
		Select[base](thingsTable, "x", map[string]string{"idd": "x.id"})
	}, "an expression without a field")
	require.Panics(t, func() { TableOf[base]("things", []string{"idd"}) }, "a key that is no column")
	require.Panics(t, func() { TableOf[base]("things", []string{"id"}, Column{Name: "id"}) }, "a column twice")
	require.Panics(t, func() {
		TableOf[struct {
			A string `json:"a" sql:"text" merge:"newest"`
		}]("things", nil)
	}, "an unknown merge")
}

func TestUnknownColumnIsAnError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *Changes){
		"insert":       func(c *Changes) { c.Insert(thingsTable, Row{"id": 1, "sendr": 1}) },
		"update":       func(c *Changes) { c.Update(thingsTable, Row{"id": 1, "sendr": 1}) },
		"delete":       func(c *Changes) { c.Delete(thingsTable, Row{"idd": 1}) },
		"delete where": func(c *Changes) { c.DeleteWhere(thingsTable, "sendr", "x") },
		"blank where":  func(c *Changes) { c.BlankWhere(thingsTable, "id", "x", "sendr") },
	} {
		p := &Projection{ID: "things", Tables: []*Table{thingsTable}, Handlers: feed.NewHandlers(
			feed.On(func(c *Changes, _ *events.LabelDeleted, _ *eventstore.Recorded) { change(c) }))}
		err := p.Write(&pgx.Batch{}, 1, []eventstore.Recorded{{Type: "label.deleted", Event: &events.LabelDeleted{}}})
		require.ErrorContains(t, err, "table things has no column", name)
		require.ErrorAs(t, err, new(*feed.UnprocessableError), "the feed parks the event")
	}
}

func TestChangedValuesAreTheChangedFieldsWithColumns(t *testing.T) {
	t.Parallel()
	event := struct {
		ID    string  `json:"id"`
		Title *string `json:"title,omitempty"`
		Order int     `json:"position"`
		Card  card    `json:"card"`
	}{ID: "a", Order: 3}
	require.Equal(t, Row{"title": (*string)(nil), "position": 3}, thingsTable.ChangedValues(event, []string{"title", "position", "card", "unknown"}))
	require.Empty(t, thingsTable.ChangedValues(event, nil))
}
