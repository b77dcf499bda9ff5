package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

func TestWriteIsVisibleInTheNextReadOnAnotherNode(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		phone := a.Phone()
		for i := range 50 { // four writes each, each read at once on the other node
			contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).JSON()
			id := text(contact, "id")
			require.Equal(t, contact, a.Live.Get("/v1/contacts/"+id).Is(200).JSON())

			changed := a.Live.Post("/v1/contacts/"+id+"/consent", app.Map{"status": "opted_in", "source": fmt.Sprint(i)}).Is(200).JSON()
			require.Equal(t, changed, a.Live.Get("/v1/contacts?limit=1").Is(200).At("data.0"))
			require.Equal(t, fmt.Sprint(i), a.Live.Get("/v1/compliance/consent-events?limit=1").Is(200).Text("data.0.source"))

			sent := send(a.Live, phone, fmt.Sprint(i))
			require.Equal(t, fmt.Sprint(i), message(a.Live, sent)["body"])
			require.Equal(t, []any{sent}, a.Live.Get("/v1/messages?limit=1").Is(200).Column("id"))
			require.Equal(t, "accepted", timeline(a.Live, sent)[0])

			a.Live.Delete("/v1/contacts/" + id).Is(200)
			a.Live.Get("/v1/contacts/"+id).Refused(404, "not_found")
		}
	})
}

func TestManyWritersEachSeeTheirOwnWrites(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Shards(4), app.TwoNodes())
	var writers sync.WaitGroup
	for w := range 8 {
		phones := make([]string, 12)
		for i := range phones {
			phones[i] = fmt.Sprintf("+1646777%d%03d", w+1, i)
		}
		writers.Go(func() {
			for _, phone := range phones {
				id := send(a.Live, phone, "Hello")
				contact := text(message(a.Live, id), "contact_id")
				require.Equal(t, phone, a.Live.Get("/v1/contacts/"+contact).Is(200).Text("phone"))
			}
		})
	}
	writers.Wait()
}

// walk reads a whole list, page by page, and calls between before each next page.
func walk(c *app.Client, path string, between func()) (ids []any) {
	for cursor := ""; ; {
		page := c.Get(path + cursor).Is(200)
		ids = append(ids, page.Column("id")...)
		next := page.Text("next_cursor")
		if next == "" {
			return ids
		}
		cursor = "&cursor=" + next
		if between != nil {
			between()
		}
	}
}

func TestPagesStayStableWhileContactsAreAdded(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards) // the clock stands, so that all have the same created_at
		other := a.NewWorkspace("Other")
		made := map[any]bool{}
		create := func() any {
			other.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
			return a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
		}
		for range 25 {
			made[create()] = true
		}
		for _, limit := range []int{1, 4, 25, 24, 100} {
			seen := walk(a.Live, fmt.Sprintf("/v1/contacts?limit=%d", limit), func() {
				if limit != 1 {
					create() // newer than every page that follows
				}
			})
			for id := range made {
				count := 0
				for _, s := range seen {
					if s == id {
						count++
					}
				}
				require.Equal(t, 1, count, "limit %d", limit)
			}
			for _, id := range seen {
				made[id] = true // what was added by then
			}
			made = map[any]bool{}
			for _, id := range walk(a.Live, "/v1/contacts?limit=100", nil) {
				made[id] = true
			}
		}
	})
}

func TestListsAreNewestFirstAndEndWithANullCursor(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	var contacts, messages []any
	for range 5 {
		contacts = append(contacts, a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in"}).Is(201).Text("id"))
		messages = append(messages, send(a.Live, a.Phone(), "x"))
	}
	slices.Reverse(contacts)
	slices.Reverse(messages)
	seen := walk(a.Live, "/v1/contacts?consent_status=opted_in&limit=2", nil)
	require.Equal(t, contacts, seen)
	require.Equal(t, messages, walk(a.Live, "/v1/messages?limit=2", nil))
	require.Len(t, walk(a.Live, "/v1/compliance/consent-events?limit=2", nil), 5)
	page := a.Live.Get("/v1/contacts?consent_status=opted_in&limit=5").Is(200).JSON()
	require.Contains(t, page, "next_cursor")
	require.Nil(t, page["next_cursor"])
	require.Equal(t, []any{}, a.Live.Get("/v1/contacts?q=nobody").Is(200).At("data"), "an empty list is no null")
}

func TestFiltersFindExactlyTheMatchingRows(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	owner := a.Users["manager"].String()
	phone := a.Phone()
	one := a.Live.Post("/v1/contacts", app.Map{
		"phone": phone, "first_name": "Grace", "last_name": "Hopper", "company": "100%_Navy\\", "email": "grace@example.com",
		"owner_user_id": owner, "labels": []string{"VIP", "vip", "Zoë"}, "fields": app.Map{"a.b": []any{app.Map{"[c]": nil}}},
	}).Is(201).JSON()
	require.Equal(t, []any{"VIP", "Zoë"}, one["labels"], "one label whatever its case")
	require.Equal(t, app.Map{"a.b": []any{app.Map{"[c]": nil}}}, one["fields"])
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Other", "company": "100 Navy"}).Is(201)
	for query, found := range map[string]int{
		"q=GRACE": 1, "q=hopper": 1, "q=grace%20hopper": 1, "q=%25_navy%5C": 1, "q=navy": 2, "q=example.com": 1, "q=" + phone[3:]: 1, "q=%25": 1, "q=_": 1,
		"label=vip": 1, "label=ZO%C3%8B": 1, "label=none": 0, "owner_user_id=" + owner: 1, "consent_status=unknown": 2, "consent_status=opted_in": 0,
		"phone=" + phone[2:]: 1, "phone=%2B" + phone[1:]: 1, "line_id=" + a.Lines[0].ID: 0, "line_id=ln_nonsense": 0,
	} {
		require.Len(t, a.Live.Get("/v1/contacts?"+query).Is(200).Data(), found, query)
	}
	// A mistyped filter must not look like an empty list.
	a.Live.Get("/v1/contacts?line_id=nonsense&phone=12").Refused(400, "validation_failed", "query /line_id invalid_format", "query /phone invalid_phone")
	a.Live.Get("/v1/messages?contact_id=x&conversation_id=y&line_id=z").
		Refused(400, "validation_failed", "query /contact_id invalid_format", "query /conversation_id invalid_format", "query /line_id invalid_format")
	a.Live.Get("/v1/compliance/consent-events?contact_id=x&phone=12").
		Refused(400, "validation_failed", "query /contact_id invalid_format", "query /phone invalid_phone")
}
