package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Client sends requests with one credential. Its methods may be used by several goroutines.
type Client struct {
	app    *App
	base   string // "" for the node that serves the method
	header http.Header
}

// As is a client with a token.
func (a *App) As(token string) *Client {
	return &Client{app: a, header: http.Header{"Authorization": {"Bearer " + token}}}
}

// Nobody is a client without a credential.
func (a *App) Nobody() *Client { return &Client{app: a, header: http.Header{}} }

// Header is the client with another header set.
func (c *Client) Header(name, value string) *Client {
	changed := *c
	changed.header = maps.Clone(c.header)
	changed.header.Set(name, value)
	return &changed
}

// Key is the client with an idempotency key.
func (c *Client) Key(key string) *Client { return c.Header("idempotency-key", key) }

// On is the client that speaks to one node, whatever the method.
func (c *Client) On(n *Node) *Client {
	changed := *c
	changed.base = n.URL
	return &changed
}

// Map is a JSON object.
type Map = map[string]any

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte

	t    testing.TB
	what string
}

// Get reads.
func (c *Client) Get(path string) Answer { return c.Do(http.MethodGet, path, nil) }

// Post writes. A body that is a []byte or a string is sent as it is, anything else as JSON; nil sends none.
func (c *Client) Post(path string, body any) Answer { return c.Do(http.MethodPost, path, body) }

// Delete deletes.
func (c *Client) Delete(path string) Answer { return c.Do(http.MethodDelete, path, nil) }

// Do sends a request.
func (c *Client) Do(method, path string, body any) Answer {
	t := c.app.t
	t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		content = bytes.NewReader(b)
	case string:
		content = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		require.NoError(t, err)
		content = bytes.NewReader(text)
	}
	base := c.base
	if base == "" {
		base = c.app.url(method)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, content)
	require.NoError(t, err)
	request.Header = maps.Clone(c.header)
	if content != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.app.client.Do(request)
	require.NoError(t, err)
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return Answer{response.StatusCode, response.Header, raw, t, method + " " + path}
}

// Is requires a status and gives the answer back.
func (a Answer) Is(status int) Answer {
	a.t.Helper()
	require.Equal(a.t, status, a.Status, "%s: %s", a.what, a.Raw)
	return a
}

// Refused requires a refusal with a status, a code, and exactly these issues, each as "location path code" in any order.
func (a Answer) Refused(status int, code string, issues ...string) Answer {
	a.t.Helper()
	a.Is(status)
	require.Equal(a.t, code, a.Text("error.code"), "%s: %s", a.what, a.Raw)
	require.NotEmpty(a.t, a.Text("error.message"))
	require.Equal(a.t, a.Header.Get("x-request-id"), a.Text("error.request_id"))
	require.ElementsMatch(a.t, issues, a.Issues(), "%s: %s", a.what, a.Raw)
	return a
}

// Issues lists the issues of a refusal as "location path code".
func (a Answer) Issues() []string {
	a.t.Helper()
	list, _ := a.At("error.details.issues").([]any)
	found := make([]string, len(list))
	for i, entry := range list {
		issue, _ := entry.(Map)
		found[i] = fmt.Sprintf("%v %v %v", issue["location"], issue["path"], issue["code"])
	}
	return found
}

// JSON is the whole answer.
func (a Answer) JSON() Map {
	a.t.Helper()
	var all Map
	require.NoError(a.t, json.Unmarshal(a.Raw, &all), "%s: %s", a.what, a.Raw)
	return all
}

// At is the value at a path of names and indexes, with dots between them; nil when there is none.
func (a Answer) At(path string) any {
	a.t.Helper()
	var value any = a.JSON()
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case Map:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			require.NoError(a.t, err)
			if i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// Text is At for texts; "" when there is none.
func (a Answer) Text(path string) string {
	a.t.Helper()
	text, _ := a.At(path).(string)
	return text
}

// Data is the rows of a list.
func (a Answer) Data() []Map {
	a.t.Helper()
	var list struct {
		Data []Map `json:"data"`
	}
	require.NoError(a.t, json.Unmarshal(a.Raw, &list), "%s: %s", a.what, a.Raw)
	return list.Data
}

// Column is one property of the rows of a list.
func (a Answer) Column(name string) []any {
	a.t.Helper()
	rows := a.Data()
	column := make([]any, len(rows))
	for i, row := range rows {
		column[i] = row[name]
	}
	return column
}
