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

// Client sends requests with one credential. Its methods may be called concurrently.
type Client struct {
	app    *App
	base   string // "": the first node that serves the method
	header http.Header
}

// As returns a client with a token.
func (a *App) As(token string) *Client {
	return &Client{app: a, header: http.Header{"Authorization": {"Bearer " + token}}}
}

// Anonymous returns a client without a credential.
func (a *App) Anonymous() *Client { return &Client{app: a, header: http.Header{}} }

// Header returns the client with another header set.
func (c *Client) Header(name, value string) *Client {
	changed := *c
	changed.header = maps.Clone(c.header)
	changed.header.Set(name, value)
	return &changed
}

// IdempotencyKey returns the client with an idempotency key.
func (c *Client) IdempotencyKey(key string) *Client { return c.Header("idempotency-key", key) }

// OnNode returns the client that sends every request to one node.
func (c *Client) OnNode(n *Node) *Client {
	changed := *c
	changed.base = n.URL
	return &changed
}

// Map is a JSON object.
type Map = map[string]any

// Answer is the answer to a request. Its methods fail the test when the answer does not fit.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte

	t       testing.TB
	request string
}

// Get sends a GET.
func (c *Client) Get(path string) Answer { return c.Do(http.MethodGet, path, nil) }

// Post sends a POST. A body that is a []byte or a string is sent as it is, anything else as JSON; nil sends no body.
func (c *Client) Post(path string, body any) Answer { return c.Do(http.MethodPost, path, body) }

// Delete sends a DELETE.
func (c *Client) Delete(path string) Answer { return c.Do(http.MethodDelete, path, nil) }

// Do sends a request; body is as in Post.
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

// Is requires a status and returns the answer.
func (a Answer) Is(status int) Answer {
	a.t.Helper()
	require.Equal(a.t, status, a.Status, "%s: %s", a.request, a.Raw)
	return a
}

// Refused requires a refusal with this status, this code, and exactly these issues, each as "location path code", in
// any order.
func (a Answer) Refused(status int, code string, issues ...string) Answer {
	a.t.Helper()
	a.Is(status)
	require.Equal(a.t, code, a.Text("error.code"), "%s: %s", a.request, a.Raw)
	require.NotEmpty(a.t, a.Text("error.message"))
	require.Equal(a.t, a.Header.Get("x-request-id"), a.Text("error.request_id"))
	require.ElementsMatch(a.t, issues, a.Issues(), "%s: %s", a.request, a.Raw)
	return a
}

// Issues returns the issues of a refusal, each as "location path code".
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

// JSON returns the whole body.
func (a Answer) JSON() Map {
	a.t.Helper()
	var all Map
	require.NoError(a.t, json.Unmarshal(a.Raw, &all), "%s: %s", a.request, a.Raw)
	return all
}

// At returns the value at a path of names and indexes with dots between them; nil if there is none.
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

// Text returns the text at a path; "" if there is none.
func (a Answer) Text(path string) string {
	a.t.Helper()
	text, _ := a.At(path).(string)
	return text
}

// Data returns the rows of a list.
func (a Answer) Data() []Map {
	a.t.Helper()
	var list struct {
		Data []Map `json:"data"`
	}
	require.NoError(a.t, json.Unmarshal(a.Raw, &list), "%s: %s", a.request, a.Raw)
	return list.Data
}

// Column returns one property of every row of a list.
func (a Answer) Column(name string) []any {
	a.t.Helper()
	rows := a.Data()
	column := make([]any, len(rows))
	for i, row := range rows {
		column[i] = row[name]
	}
	return column
}
