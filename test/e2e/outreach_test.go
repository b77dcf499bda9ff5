package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/projections"
	"ledgerline/projections/readmodel"
	"ledgerline/test/app"
)

// contactIn creates a contact and returns its id.
func contactIn(w *app.Workspace, phone string, more app.Map) string {
	body := app.Map{"phone": phone}
	for k, v := range more {
		body[k] = v
	}
	return w.Live.Post("/v1/contacts", body).Is(201).Text("id")
}

// counts returns the counts of an outreach as "total accepted sent delivered failed replied skipped".
func counts(outreach app.Map) string {
	c := object(outreach["counts"])
	return fmt.Sprint(c["total"], c["accepted"], c["sent"], c["delivered"], c["failed"], c["replied"], c["skipped"])
}

func outreachOf(a *app.App, body app.Map) string {
	full := app.Map{"name": "News", "body": "Hi {{first_name|there}}"}
	for k, v := range body {
		full[k] = v
	}
	return a.Live.Post("/v1/outreach", full).Is(201).Text("id")
}

func getOutreach(a *app.App, id string) app.Map {
	return a.Live.Get("/v1/outreach/" + id).Is(200).JSON()
}

func TestOutreachSendsOneMessageToEachContactAndCounts(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		ada, bea := contactIn(a.Workspace, phone, app.Map{"first_name": "Ada"}), contactIn(a.Workspace, a.SandboxNumber(85), nil)
		out := contactIn(a.Workspace, a.Phone(), nil)
		a.Live.Post("/v1/contacts/"+out+"/opt-out", app.Map{"source": "phone"}).Is(200)
		made := a.Live.Post("/v1/outreach", app.Map{"name": " News ", "contact_ids": []string{ada, bea, out}, "body": "Hi {{first_name|there}}"}).Is(201).JSON()
		id := text(made, "id")
		require.Equal(t, app.Map{
			"id": id, "name": "News", "status": "running", "segment_id": nil, "body": "Hi {{first_name|there}}", "pool_id": nil, "line_id": nil, "send_at": nil,
			"counts":            app.Map{"total": 3.0, "accepted": 0.0, "sent": 0.0, "delivered": 0.0, "failed": 0.0, "replied": 0.0, "skipped": 0.0},
			"skipped_by_reason": app.Map{}, "estimated_completion_at": stamp(0), "created_at": stamp(0), "started_at": nil, "finished_at": nil,
		}, made, "contact_ids are not shown again")
		a.Settle()
		done := getOutreach(a, id)
		require.Equal(t, "3 2 2 1 1 0 1", counts(done))
		require.Equal(t, []any{"completed", app.Map{"contact_opted_out": 1.0}, nil, stamp(0), stamp(0)},
			[]any{done["status"], done["skipped_by_reason"], done["estimated_completion_at"], done["started_at"], done["finished_at"]})
		sent := a.Live.Get("/v1/messages?direction=outbound&contact_id=" + ada).Is(200).Data()
		require.Len(t, sent, 1)
		require.Equal(t, []any{"Hi Ada", "outreach"}, []any{sent[0]["body"], sent[0]["source"]})
		a.Advance(7*24*time.Hour - time.Millisecond)
		a.Inbound(phone, a.Lines[0].Phone, "thanks")
		a.Inbound(phone, a.Lines[0].Phone, "really")
		a.Settle()
		require.Equal(t, "3 2 2 1 1 1 1", counts(getOutreach(a, id)), "wrote within 7 days of it, and counts once")
		late := outreachOf(a, app.Map{"contact_ids": []string{ada}})
		a.Settle()
		a.Advance(7 * 24 * time.Hour)
		a.Inbound(phone, a.Lines[0].Phone, "too late")
		a.Settle()
		require.Equal(t, "1 1 1 1 0 0 0", counts(getOutreach(a, late)))

		before := a.Live.Get("/v1/outreach").Is(200).Raw
		_, err := readmodel.Replay(t.Context(), a.Nodes[0].Ledger, projections.Outreaches, func(int64, int64) {})
		require.NoError(t, err)
		require.Equal(t, string(before), string(a.Live.Get("/v1/outreach").Is(200).Raw), "a replay gives the same lists")
	})
}

func TestAudienceOfAnOutreachIsFixedWhenItStarts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for range 3 {
		contactIn(a.Workspace, a.Phone(), app.Map{"company": "Acme"})
	}
	contactIn(a.Workspace, a.Phone(), nil)
	segment := a.Live.Post("/v1/segments", app.Map{"name": "acme", "definition": leaf("company", "eq", "Acme")}).Is(201).Text("id")
	id := outreachOf(a, app.Map{"segment_id": segment, "send_at": a.Clock.Now().Add(time.Hour).Format(time.RFC3339)})
	made := getOutreach(a, id)
	require.Equal(t, []any{"scheduled", segment, nil, stamp(time.Hour), stamp(time.Hour)},
		[]any{made["status"], made["segment_id"], made["started_at"], made["send_at"], made["estimated_completion_at"]})
	require.Equal(t, "3 0 0 0 0 0 0", counts(made), "total is counted when it is made")
	gone := contactIn(a.Workspace, a.Phone(), app.Map{"company": "Acme"})
	a.Advance(time.Hour)
	done := getOutreach(a, id)
	require.Equal(t, "4 4 4 4 0 0 0", counts(done), "and fixed when it starts")
	require.Equal(t, []any{"completed", stamp(time.Hour)}, []any{done["status"], done["started_at"]})
	a.Live.Delete("/v1/contacts/" + gone).Is(200)
	contactIn(a.Workspace, a.Phone(), app.Map{"company": "Acme"})
	a.Settle()
	require.Equal(t, "4 4 4 4 0 0 0", counts(getOutreach(a, id)))
}

func TestContactsAreSkippedWithTheirReason(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	named, nameless := contactIn(a.Workspace, a.Phone(), app.Map{"first_name": "Ada"}), contactIn(a.Workspace, a.Phone(), nil)
	erased := contactIn(a.Workspace, a.Phone(), app.Map{"first_name": "Bea"})
	at := a.Clock.Now().Add(time.Hour).Format(time.RFC3339)
	id := outreachOf(a, app.Map{"contact_ids": []string{named, nameless, erased}, "body": "Hi {{first_name}}", "send_at": at})
	a.Live.Delete("/v1/contacts/" + erased).Is(200)
	a.Advance(time.Hour)
	require.Equal(t, app.Map{"template_missing": 1.0, "contact_deleted": 1.0}, getOutreach(a, id)["skipped_by_reason"])
	require.Equal(t, "3 1 1 1 0 0 2", counts(getOutreach(a, id)))

	_, err := a.Nodes[0].App.SetCompliance(t.Context(), a.Operator(), organisation.ComplianceChange{RequireConsent: new(true)})
	require.NoError(t, err)
	preview := a.Live.Post("/v1/outreach?dry_run=true", app.Map{"name": "x", "contact_ids": []string{named, nameless}, "body": "x"}).Is(200)
	require.Equal(t, app.Map{"consent_required": 2.0}, preview.At("skipped_by_reason"))
	id = outreachOf(a, app.Map{"contact_ids": []string{named, nameless}})
	a.Settle()
	require.Equal(t, app.Map{"consent_required": 2.0}, getOutreach(a, id)["skipped_by_reason"])
	require.Equal(t, "completed", getOutreach(a, id)["status"])
}

func TestDryRunOfAnOutreachCountsAndEstimatesAndWritesNothing(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for range 5 {
		ids = append(ids, contactIn(a.Workspace, a.Phone(), nil))
	}
	a.Live.Post("/v1/contacts/"+ids[4]+"/opt-out", app.Map{"source": "phone"}).Is(200)
	var before, after int
	a.QueryRow(`select count(*) from ledger_events`, nil, &before)
	preview := a.Live.Post("/v1/outreach?dry_run=true", app.Map{"name": "x", "contact_ids": ids, "body": "Hi {{first_name|there}}"}).Is(200).JSON()
	require.Equal(t, app.Map{
		"counts":            app.Map{"total": 5.0, "accepted": 4.0, "sent": 0.0, "delivered": 0.0, "failed": 0.0, "replied": 0.0, "skipped": 1.0},
		"skipped_by_reason": app.Map{"contact_opted_out": 1.0}, "estimated_completion_at": stamp(time.Hour),
	}, preview, "two lines, one new contact an hour each")
	a.QueryRow(`select count(*) from ledger_events`, nil, &after)
	require.Equal(t, before, after)
	a.Live.Post("/v1/outreach?dry_run=true", app.Map{"name": "x", "contact_ids": ids, "body": "{{nick}}"}).Refused(400, "validation_failed", "body /body invalid_template")

	made := a.Live.Post("/v1/outreach", app.Map{"name": "x", "contact_ids": ids, "body": "Hi {{first_name|there}}"}).Is(201)
	require.Equal(t, stamp(time.Hour), made.Text("estimated_completion_at"))
	id := made.Text("id")
	a.Settle()
	require.Equal(t, "5 4 2 2 0 0 1", counts(getOutreach(a, id)))
	a.Advance(time.Hour)
	done := getOutreach(a, id)
	require.Equal(t, "5 4 4 4 0 0 1", counts(done))
	require.Equal(t, []any{"completed", stamp(time.Hour)}, []any{done["status"], done["finished_at"]}, "the estimate was honest")
}

func TestOutreachWithBadValuesIsRefused(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := contactIn(a.Workspace, a.Phone(), nil)
	other := a.NewWorkspace("Second")
	foreign := contactIn(other, a.Phone(), nil)
	create := func(changes app.Map) app.Answer {
		body := app.Map{"name": "x", "contact_ids": []string{ada}, "body": "x"}
		for k, v := range changes {
			body[k] = v
		}
		return a.Live.Post("/v1/outreach", body)
	}
	create(app.Map{"name": " "}).Refused(400, "validation_failed", "body /name required")
	create(app.Map{"segment_id": uuid.NewString()}).Refused(400, "validation_failed", "body /segment_id exactly_one")
	a.Live.Post("/v1/outreach", app.Map{"name": "x", "body": "x", "segment_id": uuid.NewString()}).Refused(400, "validation_failed", "body /segment_id not_found")
	create(app.Map{"contact_ids": []string{ada, foreign, "ctc_none"}}).Refused(400, "validation_failed", "body /contact_ids/1 not_found", "body /contact_ids/2 not_found")
	create(app.Map{"contact_ids": []string{ada, ada}}).Refused(400, "validation_failed", "body /contact_ids/1 repeated")
	create(app.Map{"body": "{{first_name"}).Refused(400, "validation_failed", "body /body invalid_template")
	create(app.Map{"body": wide(2001)}).Refused(400, "validation_failed", "body /body too_long")
	create(app.Map{"line_id": a.Lines[0].ID, "pool_id": a.PoolID}).Refused(400, "validation_failed", "body /line_id not_with_pool_id")
	create(app.Map{"line_id": other.Lines[0].ID}).Refused(400, "validation_failed", "body /line_id not_found")
	create(app.Map{"pool_id": "pool_none"}).Refused(400, "validation_failed", "body /pool_id not_found")
	create(app.Map{"send_at": a.Clock.Now().Format(time.RFC3339)}).Refused(400, "validation_failed", "body /send_at not_in_the_future")
	create(app.Map{"send_at": a.Clock.Now().Add(366 * 24 * time.Hour).Format(time.RFC3339)}).Refused(400, "validation_failed", "body /send_at too_late")
	require.Empty(t, a.Live.Get("/v1/outreach").Is(200).Data())
}

func TestCancelledOutreachEndsWhatHasNotLeft(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour = 1
	a := app.Start(t, app.Limits(limits))
	var ids []string
	for range 5 {
		ids = append(ids, contactIn(a.Workspace, a.Phone(), nil))
	}
	id := outreachOf(a, app.Map{"contact_ids": ids})
	a.Settle()
	require.Equal(t, "5 5 2 2 0 0 0", counts(getOutreach(a, id)))
	cancelled := a.Live.Post("/v1/outreach/"+id+"/cancel", nil).Is(200).JSON()
	require.Equal(t, []any{"cancelled", stamp(0), nil}, []any{cancelled["status"], cancelled["finished_at"], cancelled["estimated_completion_at"]})
	a.Settle()
	require.Equal(t, "5 5 2 2 3 0 0", counts(getOutreach(a, id)))
	failed := a.Live.Get("/v1/messages?status=failed").Is(200).Data()
	require.Len(t, failed, 3)
	require.Equal(t, "canceled", failed[0]["error_code"])
	a.Live.Post("/v1/outreach/"+id+"/cancel", nil).Refused(409, "conflict")
	a.Live.Post("/v1/outreach/"+uuid.NewString()+"/cancel", nil).Refused(404, "not_found")

	log := a.Sessions[organisation.Owner].Get("/v1/audit-log?target_type=outreach&target_id=" + id).Is(200)
	require.Equal(t, []any{"outreach.cancelled", "outreach.created"}, log.Column("type"))
	later := outreachOf(a, app.Map{"contact_ids": ids[:1], "send_at": a.Clock.Now().Add(time.Hour).Format(time.RFC3339)})
	a.Live.Post("/v1/outreach/"+later+"/cancel", nil).Is(200)
	a.Advance(time.Hour)
	require.Equal(t, "1 0 0 0 0 0 0", counts(getOutreach(a, later)))
	done := outreachOf(a, app.Map{"contact_ids": ids[:1]})
	a.Settle()
	a.Live.Post("/v1/outreach/"+done+"/cancel", nil).Refused(409, "conflict")
}

func TestOutreachesAreListedNewestFirstAndPaged(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	ada := contactIn(a.Workspace, a.Phone(), nil)
	var ids []any
	for range 3 {
		ids = append(ids, outreachOf(a, app.Map{"contact_ids": []string{ada}}))
		a.Advance(time.Second)
	}
	require.Equal(t, []any{ids[2], ids[1], ids[0]}, a.Live.Get("/v1/outreach").Is(200).Column("id"))
	require.Len(t, a.Live.Get("/v1/outreach?status=completed").Is(200).Data(), 3)
	require.Empty(t, a.Live.Get("/v1/outreach?status=cancelled").Is(200).Data())
	page := a.Live.Get("/v1/outreach?limit=2").Is(200)
	require.Equal(t, []any{ids[0]}, a.Live.Get("/v1/outreach?limit=2&cursor="+page.Text("next_cursor")).Is(200).Column("id"))
	require.Empty(t, a.NewWorkspace("Second").Live.Get("/v1/outreach").Is(200).Data())
	body := app.Map{"name": "x", "contact_ids": []string{ada}, "body": "x"}
	a.Test.Post("/v1/outreach", body).Refused(403, "forbidden")
	for _, role := range []organisation.Role{organisation.Agent, organisation.Developer} {
		require.Len(t, a.Sessions[role].Get("/v1/outreach").Is(200).Data(), 3)
		a.Sessions[role].Post("/v1/outreach", body).Refused(403, "forbidden")
	}
	first := a.Live.IdempotencyKey("one").Post("/v1/outreach", body).Is(201)
	require.Equal(t, first.Text("id"), a.Live.IdempotencyKey("one").Post("/v1/outreach", body).Is(201).Text("id"))
}

func TestOtherMessagesGoBeforeOutreachForTheSameCapacity(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	limits.NewContactsPerHour, limits.NewContactsPerDay = 1, 100
	a := app.Start(t, app.Limits(limits))
	send(a.Live, a.Phone(), "uses the hour of one line")
	send(a.Live, a.Phone(), "uses the hour of the other")
	a.Settle()
	var ids []string
	for range 4 {
		ids = append(ids, contactIn(a.Workspace, a.Phone(), nil))
	}
	id := outreachOf(a, app.Map{"contact_ids": ids})
	a.Settle()
	require.Equal(t, "4 4 0 0 0 0 0", counts(getOutreach(a, id)))
	var later []string
	for range 4 { // accepted after the outreach
		later = append(later, send(a.Live, a.Phone(), "by the API"))
	}
	same := a.Live.Post("/v1/messages", app.Map{"contact_id": ids[3], "body": "by the API, to a contact of the outreach"}).Is(201).Text("id")
	a.Settle()
	a.Advance(time.Hour)
	require.Equal(t, []any{"delivered", "delivered", "queued", "queued", "queued"},
		[]any{status(a.Live, later[0]), status(a.Live, later[1]), status(a.Live, later[2]), status(a.Live, later[3]), status(a.Live, same)})
	require.Equal(t, "4 4 0 0 0 0 0", counts(getOutreach(a, id)))
	a.Advance(time.Hour)
	a.Advance(time.Hour)
	require.Equal(t, "delivered", status(a.Live, same), "it passes the message of the outreach to the same contact")
	a.Advance(time.Hour)
	a.Advance(time.Hour)
	require.Equal(t, "4 4 4 4 0 0 0", counts(getOutreach(a, id)))
}

func TestOutreachSendsNobodyTwiceAcrossAKill(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Killable(time.Second), app.Nodes(app.Everything, app.Everything))
	file := strings.Builder{}
	file.WriteString("phone,company\n")
	const people = 300
	for i := range people {
		fmt.Fprintf(&file, "+1415777%04d,Acme\n", 2000+i)
	}
	imported(t, a, a.Live, app.Map{"csv": file.String(), "mapping": app.Map{"phone": "phone", "company": "company"}})
	segment := a.Live.Post("/v1/segments", app.Map{"name": "acme", "definition": leaf("company", "eq", "Acme")}).Is(201).Text("id")
	id := outreachOf(a, app.Map{"segment_id": segment})
	waitForRow(t, a, `select count(*) > 50 from ledger_events where type = 'outreach.message_accepted'`)
	a.Kill(a.Nodes[0])
	a.Settle()
	require.Equal(t, fmt.Sprint(people, people, people, people, 0, 0, 0), counts(getOutreach(a, id)))
	require.Equal(t, "completed", getOutreach(a, id)["status"])
	var most int
	a.QueryRow(`select max(n) from (select count(*) n from ledger_events where type = 'message.queued' group by data->>'contact_id') x`, nil, &most)
	require.Equal(t, 1, most)
}
