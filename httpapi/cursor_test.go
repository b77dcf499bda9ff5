package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi"
)

type position struct {
	At string `json:"at"`
	ID int    `json:"id"`
}

func cursors(t testing.TB, key string) *httpapi.Cursors {
	t.Helper()
	c, err := httpapi.NewCursors([]byte(key))
	require.NoError(t, err)
	return c
}

const cursorKey = "a key of more than 16 bytes"

func TestCursorReturnsItsPosition(t *testing.T) {
	t.Parallel()
	binding := httpapi.Binding{List: "contacts", Workspace: workspace, Filters: map[string]string{"q": "ann"}}
	cursor, err := cursors(t, cursorKey).Seal(binding, position{"2026", 7})
	require.NoError(t, err)
	require.Regexp(t, `^[A-Za-z0-9_-]{1,512}$`, cursor)
	require.NotContains(t, cursor, "2026")
	var got position
	require.NoError(t, cursors(t, cursorKey).Open(binding, cursor, &got), "another node with the same key")
	require.Equal(t, position{"2026", 7}, got)
}

func TestCursorOfAnotherBindingIsRefused(t *testing.T) {
	t.Parallel()
	c := cursors(t, cursorKey)
	binding := httpapi.Binding{List: "contacts", Workspace: workspace, Filters: map[string]string{"q": "ann"}}
	cursor, err := c.Seal(binding, position{"2026", 7})
	require.NoError(t, err)
	list, space, filters := binding, binding, binding
	list.List, space.Workspace, filters.Filters = "messages", uuid.Nil, map[string]string{"q": "bob"}
	refused := func(c *httpapi.Cursors, b httpapi.Binding, cursor, path string) {
		t.Helper()
		err := c.Open(b, cursor, &position{})
		f := fault.Of(err)
		require.NotNil(t, f, "%v", err)
		require.Equal(t, fault.ValidationFailed, f.Code)
		require.Equal(t, "query", f.Issues[0].Location)
		require.Equal(t, path, f.Issues[0].Path)
	}
	for _, other := range []httpapi.Binding{list, space, filters} {
		refused(c, other, cursor, "/cursor")
	}
	refused(cursors(t, "another key of 16 bytes or more"), binding, cursor, "/cursor")
	for _, forged := range []string{"x", "%", "AAAA", cursor + "A", cursor[:len(cursor)-2], "B" + cursor[1:], strings.Repeat("A", 512), strings.Repeat("A", 600), "\x00", cursor + "\n"} {
		if forged != cursor {
			refused(c, binding, forged, "/cursor")
		}
	}
	binding.Param = "messages_cursor"
	refused(c, binding, "x", "/messages_cursor")
}

func TestCursorLongerThanItsParameterIsAnError(t *testing.T) {
	t.Parallel()
	_, err := cursors(t, cursorKey).Seal(httpapi.Binding{List: "contacts"}, position{At: strings.Repeat("x", 400)})
	require.Error(t, err)
	_, err = httpapi.NewCursors([]byte("short"))
	require.Error(t, err)
}

func FuzzCursors(f *testing.F) {
	c := cursors(f, cursorKey)
	binding := httpapi.Binding{List: "contacts", Workspace: workspace}
	good, err := c.Seal(binding, position{"2026", 7})
	require.NoError(f, err)
	f.Add(good)
	f.Add("")
	f.Fuzz(func(t *testing.T, cursor string) {
		var got position
		if err := c.Open(binding, cursor, &got); err != nil {
			require.True(t, fault.Is(err, fault.ValidationFailed))
			return
		}
		require.Equal(t, position{"2026", 7}, got)
	})
}
