package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/test/app"
)

// simulatedSteps lists the steps of a simulation as "node status".
func simulatedSteps(s app.Answer) []string { return stepsOf(s.JSON()) }

// appended counts the events of the ledger.
func appended(a *app.App) (count int) {
	a.QueryRow(`select count(*) from ledger_events`, nil, &count)
	return count
}

func TestASimulationPlaysTheDraftOnAClockOfItsOwnAndWritesNothing(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/labels", app.Map{"name": "vip"}).Is(201)
	id := a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "message.received", "trigger_config": app.Map{"keywords": []string{"join"}}, "graph": graph(
		[]string{"start hi", "hi ask", "ask yes replied", "ask nudge timeout", "yes tag true", "tag vip", "vip tell true", "nudge later", "later night"},
		node("hi", "send", app.Map{"body": "Hi {{first_name|there}}!"}), node("ask", "wait", app.Map{"until_reply": app.Map{"timeout": "P1D"}}),
		node("yes", "condition", app.Map{"definition": leaf("message.body", "contains", "yes")}), node("tag", "label", app.Map{"add": []string{"vip"}}),
		node("vip", "condition", app.Map{"definition": leaf("labels", "contains", "vip")}), node("tell", "webhook", app.Map{"name": "joined", "data": app.Map{"a": 1}}),
		node("nudge", "send", app.Map{"body": "Still there, {{first_name|you}}?"}), node("later", "wait", app.Map{"duration": "PT10H"}),
		node("night", "send", app.Map{"body": "Good night"}))}).Is(201).Text("id")
	path := "/v1/workflows/" + id + "/simulate"
	before := appended(a)

	replied := a.Live.Post(path, app.Map{"contact": app.Map{"first_name": "Ada"}, "replies": []app.Map{{"body": "Yes please", "after": "PT5M"}}}).Is(200)
	require.Equal(t, []string{"start completed", "hi completed", "ask completed", "yes completed", "tag completed", "vip completed", "tell completed"}, simulatedSteps(replied))
	require.Equal(t, []any{true, nil, "completed", nil, stamp(0), stamp(5 * time.Minute), nil, nil, nil}, []any{
		replied.At("fires"), replied.At("not_fired_reason"), replied.At("status"), replied.At("error_code"), replied.At("started_at"), replied.At("finished_at"),
		replied.At("version"), replied.At("workflow_version_id"), replied.At("contact_id"),
	})
	require.Equal(t, app.Map{
		"node_id": "hi", "type": "send", "status": "completed", "at": stamp(0), "ended_at": stamp(0), "detail": app.Map{}, "event": nil,
		"message": app.Map{
			"body": "Hi Ada!", "media": []any{}, "outcome": "send", "leaves_at": stamp(0), "deferrals": []any{}, "code": nil,
			"line_id": replied.At("steps.1.message.line_id"), "from": replied.At("steps.1.message.from"),
		},
	}, replied.At("steps.1"))
	require.NotEmpty(t, replied.Text("steps.1.message.line_id"))
	require.Equal(t, []any{stamp(0), stamp(5 * time.Minute), "replied"}, []any{replied.At("steps.2.at"), replied.At("steps.2.ended_at"), replied.At("steps.2.detail.outcome")})
	require.Equal(t, app.Map{"name": "joined", "data": app.Map{"a": 1.0}}, replied.At("steps.6.event"))

	silent := a.Live.Post(path, app.Map{"contact": app.Map{}, "replies": []app.Map{{"body": "yes", "after": "P2D"}}}).Is(200)
	require.Equal(t, []string{"start completed", "hi completed", "ask completed", "nudge completed", "later completed", "night completed"}, simulatedSteps(silent))
	require.Equal(t, []any{"Still there, you?", stamp(24 * time.Hour), stamp(34 * time.Hour)},
		[]any{silent.At("steps.3.message.body"), silent.At("steps.3.at"), silent.At("steps.5.at")})
	require.Equal(t, []any{"hold", "quiet_hours", stamp(45 * time.Hour)}, // at 10 PM the contact's day is over; the message leaves at 9 AM
		[]any{silent.At("steps.5.message.outcome"), silent.At("steps.5.message.deferrals.0.reason"), silent.At("steps.5.message.leaves_at")})

	stopped := a.Live.Post(path, app.Map{"contact": app.Map{}, "replies": []app.Map{{"body": "STOP"}}}).Is(200)
	require.Equal(t, []any{"cancelled", "contact_opted_out"}, []any{stopped.At("status"), stopped.At("error_code")})
	require.Equal(t, []string{"start completed", "hi completed", "ask waiting"}, simulatedSteps(stopped))
	other := a.Live.Post(path, app.Map{"contact": app.Map{}, "message": app.Map{"body": "hello"}}).Is(200)
	require.Equal(t, []any{false, "trigger_config"}, []any{other.At("fires"), other.At("not_fired_reason")})
	require.Equal(t, before, appended(a), "nothing is written")
	a.Settle()
	require.Empty(t, runsOf(a.Workspace, ""))
}

func TestASimulationFollowsAVersionForAContactAndSaysWhatTheRulesRefuseOrDefer(t *testing.T) {
	t.Parallel()
	limits := app.Unlimited()
	limits.PreReplyMaxMessages = 2
	a := app.Start(t, app.Limits(limits))
	id, _ := triggerOf(a.Workspace, app.Map{}, graph([]string{"start one", "one two", "two three", "three four"},
		node("one", "send", app.Map{"body": "{{first_name}} {{trigger.order/id}}"}), node("two", "send", app.Map{"body": "two"}),
		node("three", "send", app.Map{"body": "three"}), node("four", "send", app.Map{"body": "{{trigger.gone}}"})))
	path := "/v1/workflows/" + id
	version := a.Live.Get(path).Text("published_version_id")
	patch2(a, path, app.Map{"graph": graph(nil)}).Is(200)
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Ada"}).Is(201).Text("id")
	played := a.Live.Post(path+"/simulate", app.Map{"version_id": version, "contact_id": contact, "trigger_data": app.Map{"order": app.Map{"id": 7}}}).Is(200)
	require.Equal(t, []any{1.0, version, contact, "failed", "template_missing"},
		[]any{played.At("version"), played.At("workflow_version_id"), played.At("contact_id"), played.At("status"), played.At("error_code")})
	require.Equal(t, []any{"Ada 7", "send", "send", "hold", "first_message_rules", nil, "failed"}, []any{
		played.At("steps.1.message.body"), played.At("steps.1.message.outcome"), played.At("steps.2.message.outcome"), played.At("steps.3.message.outcome"),
		played.At("steps.3.message.deferrals.0.reason"), played.At("steps.3.message.leaves_at"), played.At("steps.4.status"),
	}, "the messages of the simulation count as the first ones")
	require.Equal(t, []string{"start completed"}, simulatedSteps(a.Live.Post(path+"/simulate", app.Map{"contact_id": contact}).Is(200)), "the draft")
	a.Live.Post("/v1/contacts/"+contact+"/opt-out", app.Map{"source": "phone"}).Is(200)
	refused := a.Live.Post(path+"/simulate", app.Map{"version_id": version, "contact_id": contact}).Is(200)
	require.Equal(t, []any{false, "contact_opted_out", "cancelled"}, []any{refused.At("fires"), refused.At("not_fired_reason"), refused.At("status")})
}

func TestASimulationRefusesWhatAPublicationRefusesAndBadRequests(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	id := a.Live.Post("/v1/workflows", app.Map{"name": "x", "trigger": "contact.created", "graph": graph([]string{"start a"}, node("a", "send", app.Map{"body": "{{nick}}"}))}).Is(201).Text("id")
	path := "/v1/workflows/" + id + "/simulate"
	a.Live.Post(path, app.Map{"contact": app.Map{}}).Refused(400, "validation_failed", "body /graph/nodes/1/config/body config_invalid")
	patch2(a, "/v1/workflows/"+id, app.Map{"graph": graph(nil)}).Is(200)
	a.Live.Post(path, app.Map{}).Refused(400, "validation_failed", "body /contact_id exactly_one")
	a.Live.Post(path, app.Map{"contact": app.Map{}, "at": "2026-03-02T16:59:59Z", "replies": []app.Map{{"body": "x", "after": "soon"}}, "outcomes": app.Map{"a/b": "maybe"}}).
		Refused(400, "validation_failed", "body /at too_early", "body /replies/0/after invalid_format", "body /outcomes/a~1b invalid_value")
	a.Live.Post(path, app.Map{"contact": app.Map{"phone": "12", "labels": []string{"none"}}}).
		Refused(400, "validation_failed", "body /contact/phone invalid_phone", "body /contact/labels/0 not_found")
	a.Live.Post(path, app.Map{"contact_id": "ctc_none"}).Refused(404, "not_found")
	a.Live.Post(path, app.Map{"contact": app.Map{}, "version_id": "01890a5d-ac96-774b-bcce-b302099a8057"}).Refused(404, "not_found")
	a.Live.Post("/v1/workflows/01890a5d-ac96-774b-bcce-b302099a8057/simulate", app.Map{"contact": app.Map{}}).Refused(404, "not_found")
	a.Test.Post(path, app.Map{"contact": app.Map{}}).Is(200)
	a.Sessions[organisation.Analyst].Post(path, app.Map{"contact": app.Map{}}).Refused(403, "forbidden")
}
