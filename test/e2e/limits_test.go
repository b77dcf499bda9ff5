package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/apikey"
	"ledgerline/test/app"
)

func TestMetadataIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	send := func(size int) app.Answer {
		return a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x", "metadata": app.Map{"k": strings.Repeat("v", size)}})
	}
	send(16<<10 - len(`{"k":""}`)).Is(201)
	send(16<<10).Refused(400, "validation_failed", "body /metadata too_long")
}

func TestAPageEndsWithTheRowThatTakesItOver1MiB(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	const contacts = 45
	for range contacts {
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "fields": app.Map{"k": strings.Repeat("v", 30<<10)}}).Is(201)
	}
	seen, path := map[any]bool{}, "/v1/contacts?limit=100"
	for pages := 1; ; pages++ {
		page := a.Live.Get(path).Is(200)
		require.Less(t, len(page.Raw), 1<<20+2*(32<<10))
		for _, id := range page.Column("id") {
			require.False(t, seen[id])
			seen[id] = true
		}
		next := page.Text("next_cursor")
		if next == "" {
			require.Equal(t, 2, pages)
			break
		}
		path = "/v1/contacts?limit=100&cursor=" + url.QueryEscape(next)
	}
	require.Len(t, seen, contacts)
}

func TestRefusalOfLongNamesIsShort(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := app.Map{"phone": a.Phone()}
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		body[strings.Repeat(string(c), 30<<10)] = 1
	}
	require.Less(t, len(a.Live.Post("/v1/contacts", body).Is(400).Raw), 32<<10)
	a.Live.Post("/v1/contacts", `{"phone":"`+a.Phone()+`","fields":{"k":[`+strings.Repeat("[],", 30_000)+`0]}}`).Refused(400, "bad_request")
}

func TestEveryMCPMessageCountsAlsoAMalformedOne(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits())
	for _, message := range []string{
		"nonsense", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nonsense"}}`, `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`,
	} {
		client := a.Key(apikey.Live, nil, apikey.Read)
		answer := rpc(client, message)
		for tries := 0; answer.Status != 429; tries++ {
			require.Less(t, tries, 1000, message)
			answer = rpc(client, message)
		}
		answer.Refused(429, "rate_limited")
	}
}

func TestASlowQueryIsRefusedWithAClearError(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.StatementTimeout(200*time.Millisecond))
	blocker, err := a.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = blocker.Rollback(t.Context()) }()
	var table string
	a.QueryRow(`select format('%I.%I', v.view_schema, v.table_name) from (
		select table_schema as view_schema, table_name from information_schema.view_table_usage where view_schema = 'read' and view_name = 'contacts') v`, nil, &table)
	_, err = blocker.Exec(t.Context(), `lock table `+table+` in access exclusive mode`)
	require.NoError(t, err)
	refused := a.Live.Get("/v1/contacts").Refused(503, "service_unavailable")
	require.Equal(t, "5", refused.Header.Get("retry-after"))
	require.Contains(t, refused.Text("error.message"), "Narrow the search")
}

func TestSavedRepliesOfAWorkspaceAreBounded(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	reply := func(title string) app.Answer {
		return a.Live.Post("/v1/saved-replies", app.Map{"title": title, "body": "x"})
	}
	reply("first").Is(201)
	a.Exec(`update ledger_quotas set used = 2000 where key = $1`, "saved reply:"+a.ID.String())
	refused := reply("second").Refused(409, "conflict")
	require.InDelta(t, 2000, refused.At("error.details.limit"), 0)
}

func TestARevokedKeyMakesRoomForAnother(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	key := a.NewKey(apikey.Live, nil, apikey.Read)
	a.Exec(`update ledger_quotas set used = 500 where key = $1`, "API key:"+a.ID.String())
	create := app.Map{"name": "x", "scopes": []string{"read"}}
	a.Live.Post("/v1/api-keys", create).Refused(409, "conflict")
	a.Live.Delete("/v1/api-keys/" + key.ID).Is(200)
	a.Live.Delete("/v1/api-keys/" + key.ID).Is(200)
	a.Live.Post("/v1/api-keys", create).Is(201)
	a.Live.Post("/v1/api-keys", create).Refused(409, "conflict")
}

// hostileClients is how many clients attack at the same time.
const hostileClients = 50

// attack repeats a request until ctx ends, and does not read the answers.
func attack(ctx context.Context, address, method, body, token string) {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}
}

// TestATenantCannotStarveAnother has hostile clients of one organisation, which repeat heavy requests of every kind
// as fast as they are answered, while another organisation does its daily work.
func TestATenantCannotStarveAnother(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.RateLimits(), app.OrganisationRequests(4))
	b := a.NewOrganisation("Victim")
	for i := range 5 {
		a.Live.Post("/v1/segments", app.Map{"name": fmt.Sprint(i), "definition": app.Map{"field": "first_name", "op": "contains", "value": "a"}}).Is(201)
	}
	batch := "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_conversations","arguments":{}}},`, 19) +
		`{"jsonrpc":"2.0","id":2,"method":"ping"}]`
	kinds := []struct{ method, path, body string }{
		{"GET", "/v1/segments", ""},
		{"GET", "/v1/contacts/export", ""},
		{"POST", "/mcp", batch},
		{"POST", "/v1/contacts/import", `{"csv":"` + strings.Repeat("phone\\n", 100_000) + `","mapping":{"phone":"phone"}}`},
		{"POST", "/v1/contacts", `{"phone":` + strings.Repeat("[", 100_000)},
		{"POST", "/v1/api-keys", `{"name":"flood","scopes":["read"]}`},
		{"GET", "/v1/contacts?q=a", ""},
	}
	secret := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin).Secret
	other := a.NewKey(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin).Secret
	ctx, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	defer func() { stop(); attackers.Wait() }()
	for i := range hostileClients {
		kind, token := kinds[i%len(kinds)], []string{secret, other, "ll_live_nonsense"}[i%3]
		attackers.Go(func() { attack(ctx, a.Nodes[0].URL+kind.path, kind.method, kind.body, token) })
	}
	for i := range 10 {
		phone := a.Phone()
		made := b.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": fmt.Sprint("Ada ", i)}).Is(201)
		sent := b.Live.Post("/v1/messages", app.Map{"to": phone, "body": fmt.Sprint("Hello ", i)}).Is(201)
		b.Live.Get("/v1/contacts/" + made.Text("id")).Is(200)
		b.Live.Get("/v1/contacts?q=ada").Is(200)
		require.Eventually(t, func() bool {
			return b.Live.Get("/v1/messages/"+sent.Text("id")).Is(200).Text("sent_at") != ""
		}, time.Minute, 50*time.Millisecond, "the message does not leave")
	}
}
