package e2e_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

func TestLineShowsItsPropertiesAndUsage(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	l := a.Lines[0]
	require.Equal(t, app.Map{
		"id": l.ID, "phone": l.Phone, "display_name": nil, "state": "active", "state_changed_at": nil, "state_reason": nil, "health_score": 100.0,
		"is_sandbox": false, "pool_id": a.PoolID, "warmup_day": 0.0, "daily_new_cap": 50.0, "contact_card": app.Map{"name": "", "image_url": ""},
		"usage_today": app.Map{"day": "2026-03-02", "new_contacts": 0.0, "new_contacts_cap": 50.0, "sends": 0.0, "sends_cap": 1000.0}, "created_at": stamp(0),
	}, a.Live.Get("/v1/lines/"+l.ID).Is(200).JSON())

	phone := a.Phone()
	for range 2 {
		a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "Hello", "line_id": l.ID}).Is(201)
	}
	a.Settle()
	shows(t, object(a.Live.Get("/v1/lines/"+l.ID).Is(200).At("usage_today")), app.Map{"new_contacts": 1.0, "sends": 2.0})
	a.Advance(15 * time.Hour) // 3 AM in New York
	shows(t, object(a.Live.Get("/v1/lines/"+l.ID).Is(200).At("usage_today")), app.Map{"day": "2026-03-03", "new_contacts": 0.0, "sends": 0.0})

	other := a.NewWorkspace("Other")
	other.Live.Get("/v1/lines/"+l.ID).Refused(404, "not_found")
	other.Live.Do("PATCH", "/v1/lines/"+l.ID, app.Map{"display_name": "x"}).Refused(404, "not_found")
	other.Live.Post("/v1/lines/"+l.ID+"/pause", nil).Refused(404, "not_found")
}

func TestWarmingLineShowsItsWarmupDayAndCap(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Limits(line.DefaultLimits()))
	made, err := a.Nodes[0].App.ProvisionLine(t.Context(), a.Operator(), commands.ProvisionLine{Phone: a.Phone(), State: line.Ready})
	require.NoError(t, err)
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": made.Ref}).Is(201)
	a.Settle()
	shows(t, a.Live.Get("/v1/lines/"+made.Ref).Is(200).JSON(), app.Map{"state": "warming", "warmup_day": 1.0, "daily_new_cap": 10.0, "state_changed_at": stamp(0)})
	a.Advance(3 * 24 * time.Hour)
	shows(t, a.Live.Get("/v1/lines/"+made.Ref).Is(200).JSON(), app.Map{"warmup_day": 4.0, "daily_new_cap": 20.0})
}

func TestLinesAreListedByPoolAndState(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	all := []any{a.Sandbox.ID, a.Lines[0].ID, a.Lines[1].ID}
	require.ElementsMatch(t, all, a.Live.Get("/v1/lines").Is(200).Column("id"))
	require.ElementsMatch(t, all[1:], a.Live.Get("/v1/lines?pool_id="+a.PoolID).Is(200).Column("id"))
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, "quarantined", nil)
	require.NoError(t, err)
	require.Equal(t, []any{a.Lines[0].ID}, a.Live.Get("/v1/lines?state=quarantined").Is(200).Column("id"))
	a.Live.Get("/v1/lines?state=x").Refused(400, "validation_failed", "query /state invalid_value")
	a.Live.Get("/v1/lines?pool_id=y").Refused(400, "validation_failed", "query /pool_id invalid_format")
}

func TestLineIsRenamedMovedToAPoolAndGivenAContactCard(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	path := "/v1/lines/" + a.Lines[0].ID
	patch := func(body app.Map) app.Answer { return a.Live.Do("PATCH", path, body) }
	pool := a.Live.Post("/v1/pools", app.Map{"name": "VIP"}).Is(201).Text("id")
	shows(t, patch(app.Map{"display_name": "Front desk", "pool_id": pool, "contact_card": app.Map{"name": "Acme"}}).Is(200).JSON(),
		app.Map{"display_name": "Front desk", "pool_id": pool, "contact_card": app.Map{"name": "Acme", "image_url": ""}})
	shows(t, patch(app.Map{"contact_card": app.Map{"image_url": "https://example.com/a.png"}}).Is(200).JSON(),
		app.Map{"display_name": "Front desk", "contact_card": app.Map{"name": "Acme", "image_url": "https://example.com/a.png"}})
	shows(t, patch(app.Map{"contact_card": app.Map{"image_url": ""}}).Is(200).JSON(), app.Map{"contact_card": app.Map{"name": "Acme", "image_url": ""}})
	for _, wrong := range []string{"http://example.com/a.png", "ftp://example.com/a.png", "a.png", "https://", " "} {
		patch(app.Map{"contact_card": app.Map{"image_url": wrong}}).Refused(400, "validation_failed", "body /contact_card/image_url invalid_format")
	}
	patch(app.Map{"contact_card": app.Map{"image_url": nil}}).Refused(400, "validation_failed", "body /contact_card/image_url null_not_allowed")
	id := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "pool_id": pool}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, a.Lines[0].ID, message(a.Live, id)["line_id"], "the pool sends through its line")

	shows(t, patch(app.Map{"display_name": nil, "pool_id": nil}).Is(200).JSON(), app.Map{"display_name": nil, "pool_id": nil})
	deferred := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "pool_id": pool}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, deferred), "the pool is empty")
	patch(app.Map{"pool_id": pool}).Is(200)
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, deferred), "a line that joins the pool takes what waits")

	patch(app.Map{"pool_id": ""}).Refused(400, "validation_failed", "body /pool_id not_found")
	require.Equal(t, pool, a.Live.Get(path).Is(200).Text("pool_id"))
	a.Live.Post("/v1/line-requests", app.Map{"count": 1, "pool_id": ""}).Refused(400, "validation_failed", "body /pool_id not_found")
	patch(app.Map{"pool_id": "pool_x", "contact_card": app.Map{"image_url": "http://example.com/a.png"}}).
		Refused(400, "validation_failed", "body /pool_id not_found", "body /contact_card/image_url invalid_format")
	patch(app.Map{"pool_id": a.NewWorkspace("Other").PoolID}).Refused(400, "validation_failed", "body /pool_id not_found")
	a.Live.Do("PATCH", "/v1/lines/"+a.Sandbox.ID, app.Map{"pool_id": pool}).Refused(409, "conflict")
}

func TestResumedLineReturnsToItsState(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	path := "/v1/lines/" + a.Lines[0].ID
	a.Live.Post(path+"/resume", nil).Refused(409, "conflict")
	shows(t, a.Live.Post(path+"/pause", app.Map{"reason": "holidays"}).Is(200).JSON(),
		app.Map{"state": "paused", "state_reason": "holidays", "state_changed_at": stamp(0)})
	a.Live.Post(path+"/pause", nil).Refused(409, "conflict")
	id := a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": a.Lines[0].ID}).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, id))
	require.Equal(t, "active", a.Sessions[organisation.Manager].Post(path+"/resume", nil).Is(200).Text("state"))
	a.Settle()
	require.Equal(t, "delivered", status(a.Live, id))
	a.Live.Post(path+"/pause", app.Map{"reason": string(make([]byte, 501))}).Is(400)
}

func TestRetiredLineStopsSendingAndFreesItsNumber(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	there := a.Nodes[1].App // the other node, which learns of changes only through the ledger
	old := a.Lines[0]
	send := func(c *app.Client, line string) app.Answer {
		return c.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "Hello", "line_id": line})
	}
	send(a.Live, old.ID).Is(201)
	a.Inbound("+12125550177", old.Phone, "hi")
	a.Live.Post("/v1/lines/"+old.ID+"/pause", nil).Is(200)
	waiting := send(a.Live, old.ID).Is(201).Text("id")
	a.Settle()
	require.Equal(t, "queued", status(a.Live, waiting))

	_, err := there.ProvisionLine(t.Context(), a.Operator(), commands.ProvisionLine{Phone: old.Phone})
	require.Error(t, err, "the line has its number still")
	_, err = there.ChangeLineState(t.Context(), a.Operator(), old.ID, line.Retired, nil)
	require.NoError(t, err)
	send(a.Live, old.ID).Refused(400, "validation_failed", "body /line_id retired")
	a.Settle()
	shows(t, message(a.Live, waiting), app.Map{"status": "failed", "error_code": "canceled", "error_details": app.Map{"reason": "line_retired"}})

	other := a.NewOrganisation("Other")
	made, err := there.ProvisionLine(t.Context(), other.Operator(), commands.ProvisionLine{Phone: old.Phone, State: line.Active})
	require.NoError(t, err)
	_, err = there.ProvisionLine(t.Context(), a.Operator(), commands.ProvisionLine{Phone: old.Phone})
	require.Error(t, err)
	before := len(a.Live.Get("/v1/contacts").Is(200).Data())
	a.Inbound("+12125550178", old.Phone, "who is this?")
	require.Len(t, a.Live.Get("/v1/contacts").Is(200).Data(), before)
	require.Equal(t, []any{made.Ref}, other.Live.Get("/v1/conversations").Is(200).Column("line_id"))
	send(other.Live, made.Ref).Is(201)
}

func TestPoolsAreCreatedAndChanged(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	pool := a.Live.Post("/v1/pools", app.Map{"name": "VIP"}).Is(201).JSON()
	shows(t, pool, app.Map{"name": "VIP", "rotation": "sticky", "fallback_sms_mode": "off", "fallback_sms": false, "line_count": 0.0, "created_at": stamp(0)})
	a.Live.Post("/v1/pools", app.Map{"name": " vip "}).Refused(409, "conflict")
	shows(t, a.Live.Post("/v1/pools", app.Map{"name": "Old", "fallback_sms": true, "rotation": "round_robin"}).Is(201).JSON(),
		app.Map{"fallback_sms_mode": "not_chat", "fallback_sms": true, "rotation": "round_robin"})
	shows(t, a.Live.Post("/v1/pools", app.Map{"name": "Both", "fallback_sms": true, "fallback_sms_mode": "off"}).Is(201).JSON(),
		app.Map{"fallback_sms_mode": "off", "fallback_sms": false})

	path := "/v1/pools/" + text(pool, "id")
	patch := func(body app.Map) app.Answer { return a.Live.Do("PATCH", path, body) }
	shows(t, patch(app.Map{"fallback_sms": false, "fallback_sms_mode": "not_chat_or_failed"}).Is(200).JSON(), app.Map{"fallback_sms_mode": "not_chat_or_failed", "fallback_sms": true})
	shows(t, patch(app.Map{"name": "Very", "rotation": "round_robin"}).Is(200).JSON(),
		app.Map{"name": "Very", "rotation": "round_robin", "fallback_sms_mode": "not_chat_or_failed"})
	patch(app.Map{"name": "Old"}).Refused(409, "conflict")
	patch(app.Map{"name": nil}).Is(400)
	a.Live.Post("/v1/pools", app.Map{"name": "VIP"}).Is(201) // the name is free again
	require.Equal(t, "Default", a.Live.Get("/v1/pools").Is(200).Column("name")[0], "oldest first")
	require.ElementsMatch(t, []any{"Default", "Very", "Old", "Both", "VIP"}, a.Live.Get("/v1/pools").Is(200).Column("name"))
	require.EqualValues(t, 2, a.Live.Get("/v1/pools").Is(200).Column("line_count")[0])
	_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), a.Lines[0].ID, line.Retired, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Live.Get("/v1/pools").Is(200).Column("line_count")[0], "a retired line is in no pool")
	a.NewWorkspace("Other").Live.Do("PATCH", path, app.Map{"name": "x"}).Refused(404, "not_found")
}

func TestOperatorFulfilsARequestForLines(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	other := a.NewWorkspace("Other")
	node := a.Nodes[0].App
	pool := a.Live.Post("/v1/pools", app.Map{"name": "VIP"}).Is(201).Text("id")
	made := a.Live.Post("/v1/line-requests", app.Map{"count": 2, "area_codes": []string{"415"}, "note": "soon", "pool_id": pool}).Is(201).JSON()
	shows(t, made, app.Map{"count": 2.0, "area_codes": []any{"415"}, "note": "soon", "pool_id": pool, "status": "pending", "created_at": stamp(0)})
	id := uuid.MustParse(text(made, "id"))
	of := func(c *app.Client) []any { return c.Get("/v1/line-requests").Is(200).Column("status") }

	for i, want := range []string{"in_progress", "fulfilled"} {
		provisioned, err := node.ProvisionLine(t.Context(), a.Operator(), commands.ProvisionLine{Phone: a.Phone(), State: line.Ready, LineRequestID: &id})
		require.NoError(t, err)
		require.Equal(t, []any{want}, of(a.Live))
		require.Equal(t, pool, a.Live.Get("/v1/lines/"+provisioned.Ref).Is(200).Text("pool_id"), "line %d is in the pool that was asked for", i)
	}
	_, err := node.ProvisionLine(t.Context(), a.Operator(), commands.ProvisionLine{Phone: a.Phone(), LineRequestID: &id})
	require.Error(t, err, "it is closed")
	require.Empty(t, of(other.Live))

	a.Live.Post("/v1/line-requests", app.Map{"count": 51, "pool_id": "pool_x"}).Refused(400, "validation_failed", "body /count too_large")
	a.Live.Post("/v1/line-requests", app.Map{"count": 1, "pool_id": "pool_x"}).Refused(400, "validation_failed", "body /pool_id not_found")
	other.Live.Post("/v1/line-requests", app.Map{"count": 1, "pool_id": pool}).Refused(400, "validation_failed", "body /pool_id not_found")
	require.Equal(t, []any{}, a.Live.Post("/v1/line-requests", app.Map{"count": 1}).Is(201).At("area_codes"))
	page := a.Live.Get("/v1/line-requests?limit=1").Is(200)
	require.Equal(t, []any{"pending"}, page.Column("status"))
	require.Equal(t, []any{"fulfilled"}, a.Live.Get("/v1/line-requests?limit=1&cursor="+page.Text("next_cursor")).Is(200).Column("status"))
}

func TestFiveOfManyConcurrentRequestsForLinesAreAccepted(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 12 {
		all.Go(func() {
			answer := a.Live.OnNode(a.Nodes[i%2]).Post("/v1/line-requests", app.Map{"count": 1})
			mu.Lock()
			defer mu.Unlock()
			statuses[answer.Status]++
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{201: 5, 409: 7}, statuses)
	first := a.Live.Get("/v1/line-requests").Is(200).Data()
	require.Len(t, first, 5)
	_, err := a.Nodes[0].App.CancelLineRequest(t.Context(), a.Operator(), uuid.MustParse(text(first[0], "id")), nil)
	require.NoError(t, err)
	a.Live.Post("/v1/line-requests", app.Map{"count": 1}).Is(201)
}

func TestRolesAndScopesThatMaySeeAndChangeLines(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	path := "/v1/lines/" + a.Lines[0].ID
	reader, admin := a.Key(apikey.Live, nil, apikey.Read), a.Key(apikey.Live, nil, apikey.Admin)
	for _, c := range []*app.Client{reader, a.Test, a.Sessions[organisation.Analyst], a.Sessions[organisation.Developer]} {
		for _, list := range []string{"/v1/lines", path, "/v1/pools", "/v1/line-requests"} {
			c.Get(list).Is(200)
		}
	}
	for _, c := range []*app.Client{admin, a.Sessions[organisation.Developer], a.Sessions[organisation.Manager]} {
		c.Do("PATCH", path, app.Map{"display_name": "x"}).Is(200)
	}
	admin.Get(path).Refused(403, "forbidden")
	for _, c := range []*app.Client{reader, a.Sessions[organisation.Analyst], a.Sessions[organisation.Agent]} {
		c.Do("PATCH", path, app.Map{"display_name": "x"}).Refused(403, "forbidden")
		c.Post(path+"/pause", nil).Refused(403, "forbidden")
		c.Post("/v1/pools", app.Map{"name": "x"}).Refused(403, "forbidden")
		c.Post("/v1/line-requests", app.Map{"count": 1}).Refused(403, "forbidden")
	}
	a.Sessions[organisation.Agent].Get("/v1/lines").Refused(403, "forbidden")
}
