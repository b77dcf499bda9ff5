package events_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/events"
)

// renamed is at version 3: version 1 has one name, version 2 splits it, version 3 makes the second half personal data.
type renamed struct {
	First  string `json:"first"`
	Person person `json:"-"`
}

type person struct {
	Last string `json:"last"`
}

func (e *renamed) Subject() string { return "someone" }
func (e *renamed) Personal() any   { return &e.Person }

func splitName(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error) {
	var old struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(facts, &old); err != nil {
		return nil, nil, err
	}
	if old.Name == "" {
		return nil, nil, errors.New("no name")
	}
	lifted, err := json.Marshal(map[string]string{"first": old.Name, "last": "unknown"})
	return lifted, personal, err
}

func sealLast(facts, _ json.RawMessage) (json.RawMessage, json.RawMessage, error) {
	var old map[string]string
	if err := json.Unmarshal(facts, &old); err != nil {
		return nil, nil, err
	}
	sealed, err := json.Marshal(map[string]string{"last": old["last"]})
	if err != nil {
		return nil, nil, err
	}
	delete(old, "last")
	lifted, err := json.Marshal(old)
	return lifted, sealed, err
}

func TestOlderVersionsAreConvertedToTheCurrentOne(t *testing.T) {
	t.Parallel()
	r := events.NewRegistry(events.Define[renamed]("thing.renamed", 3, splitName, sealLast))
	for version, text := range map[int][2]string{
		1: {`{"name":"Ada"}`, ``},
		2: {`{"first":"Ada","last":"unknown"}`, ``},
		3: {`{"first":"Ada"}`, `{"last":"unknown"}`},
	} {
		event, err := r.Decode("thing.renamed", version, []byte(text[0]), []byte(text[1]))
		require.NoError(t, err)
		require.Equal(t, &renamed{First: "Ada", Person: person{Last: "unknown"}}, event, version)
	}
	name, version := r.Name(&renamed{})
	require.Equal(t, []any{"thing.renamed", 3}, []any{name, version})
	require.Equal(t, 3, r.Version("thing.renamed"))
	require.Zero(t, r.Version("thing.else"))
}

func TestUndecodableEventsAreErrors(t *testing.T) {
	t.Parallel()
	r := events.NewRegistry(events.Define[renamed]("thing.renamed", 3, splitName, sealLast))
	for _, row := range []struct {
		name     string
		version  int
		facts    string
		personal string
	}{
		{"thing.else", 1, `{}`, ``}, {"thing.renamed", 4, `{}`, ``}, {"thing.renamed", 0, `{}`, ``}, {"thing.renamed", 1, `{}`, ``},
		{"thing.renamed", 3, `{`, ``}, {"thing.renamed", 3, `{}`, `{`},
	} {
		_, err := r.Decode(row.name, row.version, []byte(row.facts), []byte(row.personal))
		require.Error(t, err, row)
	}
	require.Nil(t, r.New("thing.else"))
}

func TestMistakesInTheRegistryPanic(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { events.Define[renamed]("thing.renamed", 2) }, "an upcaster is missing")
	require.Panics(t, func() { events.NewRegistry(events.Define[renamed]("a", 1), events.Define[renamed]("b", 1)) })
	require.Panics(t, func() { events.NewRegistry(events.Define[renamed]("a", 1), events.Define[person]("a", 1)) })
	require.Panics(t, func() { events.Default.Name(&renamed{}) })
	require.Panics(t, func() { events.Default.Name(renamed{}) })
	require.Equal(t, []string{"contact.created"}, events.NamesOf((*events.ContactCreated)(nil)))
}
