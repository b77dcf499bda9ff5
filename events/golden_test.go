package events_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/events"
)

// golden is the stored form of one version of an event. The file of a released version is never changed.
type golden struct {
	Facts    json.RawMessage `json:"facts"`
	Personal json.RawMessage `json:"personal,omitempty"`
}

func path(name string, version int) string {
	return filepath.Join("testdata", fmt.Sprintf("%s.v%d.json", name, version))
}

// TestEveryEventIsStoredAsInItsGoldenFile prints the content of a file that is missing.
func TestEveryEventIsStoredAsInItsGoldenFile(t *testing.T) {
	t.Parallel()
	for _, name := range events.Default.Names() {
		sample := filled(events.Default.New(name))
		found, version := events.Default.Name(sample)
		require.Equal(t, name, found)
		want, err := os.ReadFile(path(name, version))
		got := written(t, sample)
		require.NoError(t, err, "%s is missing; its text would be:\n%s", path(name, version), got)
		require.Equal(t, string(want), got, "%s: a released event is never edited: add a version and an upcaster", path(name, version))
	}
}

func TestEveryReleasedVersionIsDecodedAsTheCurrentOne(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	read := 0
	for _, name := range events.Default.Names() {
		for version := 1; version <= events.Default.Version(name); version++ {
			text, err := os.ReadFile(path(name, version))
			require.NoError(t, err)
			read++
			var g golden
			require.NoError(t, json.Unmarshal(text, &g))
			event, err := events.Default.Decode(name, version, g.Facts, g.Personal)
			require.NoError(t, err)
			if version == events.Default.Version(name) {
				require.Equal(t, filled(events.Default.New(name)), event)
			}
		}
	}
	require.Len(t, files, read, "a golden file without an event: its events could not be read any more")
}

func written(t *testing.T, event events.Event) string {
	t.Helper()
	g := golden{Facts: encode(t, event)}
	if sealed, ok := event.(events.Sealed); ok {
		g.Personal = encode(t, sealed.Personal())
		require.NotEmpty(t, sealed.Subject())
		for line := range strings.Lines(string(g.Personal)) {
			key, _, found := strings.Cut(strings.TrimSpace(line), ":")
			require.False(t, found && strings.Contains(string(g.Facts), key+":"), "%s is in the facts as well", key)
		}
	}
	text, err := json.MarshalIndent(g, "", "  ")
	require.NoError(t, err)
	return string(text) + "\n"
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// filled sets every field to a fixed value that is not zero.
func filled(event events.Event) events.Event {
	fill(reflect.ValueOf(event).Elem(), "")
	return event
}

func fill(v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)))
		return
	case uuid.UUID:
		v.Set(reflect.ValueOf(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the kinds that events are made of
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fill(v.Field(i), tag)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"key": "value"}))
	case reflect.String:
		v.SetString("a " + strings.ReplaceAll(name, "_", " "))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		panic("events are not made of " + v.Kind().String())
	}
}
