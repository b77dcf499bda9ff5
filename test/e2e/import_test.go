package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/service"
	"ledgerline/test/app"
)

// imported imports a file and returns its job when no work is due any more.
func imported(t *testing.T, a *app.App, c *app.Client, body app.Map) app.Answer {
	t.Helper()
	accepted := c.Post("/v1/contacts/import", body).Is(202)
	require.Equal(t, "queued", accepted.Text("status"))
	require.Equal(t, []any{}, accepted.At("errors"))
	a.Settle()
	job := a.Live.Get("/v1/contacts/imports/" + accepted.Text("id")).Is(200)
	require.Equal(t, accepted.At("created_at"), job.At("created_at"))
	var files int
	a.QueryRow(`select count(*) from import_files`, nil, &files)
	require.Zero(t, files, "the file is gone with the end of its job")
	return job
}

// outcome is the state of a job in one line.
func outcome(job app.Answer) string {
	return fmt.Sprintf("%v of %v: %v imported, %v updated, %v skipped, %d errors", job.At("status"), job.At("total_rows"), job.At("imported"), job.At("updated"), job.At("skipped"),
		len(errorsOf(job)))
}

func errorsOf(job app.Answer) map[int]string {
	list, _ := job.At("errors").([]any)
	found := map[int]string{}
	for _, entry := range list {
		e, _ := entry.(app.Map)
		row, _ := e["row"].(float64)
		found[int(row)], _ = e["message"].(string)
	}
	return found
}

// withPhone finds the contact with a number.
func withPhone(t *testing.T, c *app.Client, phone string) app.Map {
	t.Helper()
	rows := c.Get("/v1/contacts?phone=" + strings.ReplaceAll(phone, "+", "%2B")).Is(200).Data()
	require.Len(t, rows, 1, phone)
	return rows[0]
}

func TestImportCreatesContactsFromItsRows(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		job := imported(t, a, a.Live, app.Map{
			"csv": "\ufeffMobile,First,Last,Firm,Mail,Tags,Status,City,Unused\r\n" +
				"(415) 555-2671, Anna ,O'Neil,\"Smith, Jones\r\n& Co\",anna@example.com,vip; New York ;VIP,opted_in,Köln,x\r\n" +
				"\r\n" +
				"+442079460018,,,,,,,,\r\n" +
				"'+14155552672,\"'=Bob\",,,,,UNKNOWN,'-5,\r\n",
			"mapping": app.Map{
				"Mobile": "phone", "First": "first_name", "Last": "last_name", "Firm": "company", "Mail": "email", "Tags": "labels", "Status": "consent_status",
				"City": "fields.city", "Unused": "ignore",
			},
			"labels": []string{"Spring"}, "consent_source": "trade fair",
		})
		require.Equal(t, "completed of 3: 3 imported, 0 updated, 0 skipped, 0 errors", outcome(job))

		anna := withPhone(t, a.Live, "+14155552671")
		require.Equal(t, []any{"Anna", "O'Neil", "Smith, Jones\r\n& Co", "anna@example.com"}, []any{anna["first_name"], anna["last_name"], anna["company"], anna["email"]})
		require.Equal(t, []any{"New York", "Spring", "vip"}, anna["labels"])
		require.Equal(t, []any{"opted_in", "trade fair", app.Map{"city": "Köln"}}, []any{anna["consent_status"], anna["consent_source"], anna["fields"]})
		bare := withPhone(t, a.Live, "+442079460018")
		require.Equal(t, []any{nil, nil, "unknown", []any{"Spring"}, app.Map{}}, []any{bare["first_name"], bare["email"], bare["consent_status"], bare["labels"], bare["fields"]})
		bob := withPhone(t, a.Live, "+14155552672")
		require.Equal(t, []any{"=Bob", app.Map{"city": "-5"}}, []any{bob["first_name"], bob["fields"]}, "what an export puts in front is taken off")

		trail := a.Live.Get("/v1/compliance/consent-events").Is(200).Data()
		require.Len(t, trail, 1)
		require.Equal(t, "trade fair", trail[0]["source"])
		actor, _ := trail[0]["actor"].(app.Map)
		require.Equal(t, "key", actor["type"], "the evidence names who sent the file")
		require.NotNil(t, trail[0]["ip"])
		var origins, labels int
		a.QueryRow(`select count(*) from ledger_events where type = 'contact.created' and data->>'origin' = 'import'`, nil, &origins)
		a.QueryRow(`select count(*) from ledger_events where type = 'label.created'`, nil, &labels)
		require.Equal(t, []int{3, 3}, []int{origins, labels})
	})
}

func TestBadRowIsSkippedAndReportedWithItsNumberOnly(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	file := "phone,first_name,email,labels,consent_status,note\n" +
		"not a phone,A,,,,\n" + // 2
		"+14155552001,A\n" + // 3
		"+14155552002,A,,,,,x\n" + // 4
		",A,,,,\n" + // 5
		"+14155552003," + strings.Repeat("é", 101) + ",,,,\n" + // 6
		"+14155552004,A,nobody at home,,,\n" + // 7
		"+14155552005,A,," + strings.Repeat("x", 65) + ",,\n" + // 8
		"+14155552006,A,,,maybe,\n" + // 9
		"+14155552007,A,,,,\"" + strings.Repeat("x", 1<<20) + "\"\n" + // 10
		"+14155552008,A,,,opted_in,\n" + // 11
		"+14155552009," + strings.Repeat("é", 100) + ",,,,\n" + // 12, good
		"(415) 555-2009,again,,,,\n" + // 13, the same number
		"+14155552010,A,,,\"\n\",\n" // 14, good
	job := imported(t, a, a.Live, app.Map{"csv": file, "mapping": app.Map{
		"phone": "phone", "first_name": "first_name", "email": "email", "labels": "labels", "consent_status": "consent_status", "note": "fields.note",
	}})
	require.Equal(t, "completed of 13: 2 imported, 0 updated, 11 skipped, 11 errors", outcome(job))
	reported := errorsOf(job)
	for row, want := range map[int]string{
		2: "phone number", 3: "2 cells", 4: "7 cells", 5: "phone is missing", 6: "first_name has more than 100", 7: "not an e-mail", 8: "at most 64",
		9: "consent_status", 10: "too long", 11: "consent_source", 13: "exists",
	} {
		require.Contains(t, reported[row], want, "row %d", row)
	}
	for _, secret := range []string{"not a phone", "555", "nobody", "maybe", "xxx", "ééé"} {
		require.NotContains(t, string(job.Raw), secret)
	}
	require.Equal(t, strings.Repeat("é", 100), withPhone(t, a.Live, "+14155552009")["first_name"])
	require.Len(t, a.Live.Get("/v1/contacts").Is(200).Data(), 2)
}

func TestUnreadableImportIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := app.Map{"p": "phone"}
	refuse := func(csv string, mapping app.Map, issues ...string) {
		t.Helper()
		a.Live.Post("/v1/contacts/import", app.Map{"csv": csv, "mapping": mapping}).Refused(400, "validation_failed", issues...)
	}
	refuse("", phone, "body /csv empty")
	refuse("p;q\n1;2", phone, "body /csv wrong_separator")
	refuse("p\tq\n1\t2", phone, "body /csv wrong_separator")
	refuse("p,q\n\"1,2\n", phone, "body /csv unclosed_quote")
	refuse("p,q\n1,2\n3,a \"b\"\n", phone, "body /csv unexpected_quote")
	refuse("p"+strings.Repeat(",q", 9_999)+"\n", phone, "body /csv too_many_columns")
	refuse("p\n"+strings.Repeat("+14155552671\n", 50_001), phone, "body /csv too_many_rows")
	refuse("p,q\n1,\x00\n", phone, "body /csv invalid_characters")
	refuse("p,q\n", app.Map{}, "body /mapping required")
	refuse("p,q\n", app.Map{"q": "first_name"}, "body /mapping required")
	refuse("p,q\n", app.Map{"p": "phone", "x/y": "first_name", "q": "surname"}, "body /mapping/x~1y unknown_header", "body /mapping/q invalid_value")
	refuse("p,q\n", app.Map{"p": "phone", "q": "phone"}, "body /mapping/q duplicate_target")
	refuse("p,p\n", phone, "body /mapping/p duplicate_header")
	refuse("p,q\n", app.Map{"p": "phone", "q": "fields."}, "body /mapping/q invalid_value")
	refuse("p,q\n", app.Map{"p": "phone", "q": "fields." + strings.Repeat("k", 101)}, "body /mapping/q too_long")
	refuse("P,q\n", app.Map{"p": "phone"}, "body /mapping/p unknown_header")
	a.Live.Post("/v1/contacts/import", app.Map{"mapping": app.Map{"p": 1}, "update_existing": "yes", "extra": 1}).
		Refused(400, "validation_failed", "body /csv required", "body /mapping/p invalid_type", "body /update_existing invalid_type", "body /extra unknown_property")
	a.Live.Post("/v1/contacts/import", app.Map{"csv": "p,q\n", "mapping": app.Map{"r": "phone"}, "labels": []string{"a", " "}, "extra": 1}).
		Refused(400, "validation_failed", "body /mapping/r unknown_header", "body /labels/1 required", "body /extra unknown_property")
	a.Live.Post("/v1/contacts/import", app.Map{"csv": "p\n" + strings.Repeat("1", 5_000_000), "mapping": phone, "consent_source": strings.Repeat("x", 201), "labels": strings.Split("abcdefghijk", "")}).
		Refused(400, "validation_failed", "body /csv too_long", "body /consent_source too_long", "body /labels too_many_items")
	a.Live.Post("/v1/contacts/import", strings.Repeat(" ", 33<<20)).Refused(413, "payload_too_large")
	a.Sessions["agent"].Post("/v1/contacts/import", app.Map{"csv": "p\n", "mapping": phone}).Refused(403, "forbidden")
	a.Sessions["analyst"].Post("/v1/contacts/import", app.Map{"csv": "p\n", "mapping": phone}).Refused(403, "forbidden")

	var staged, requested int
	a.QueryRow(`select (select count(*) from import_files), (select count(*) from ledger_events where type like 'import.%')`, nil, &staged, &requested)
	require.Zero(t, staged+requested, "nothing of a refused import is kept")
	for _, id := range []string{"0195573c-0000-7000-8000-000000000000", "x"} {
		require.Contains(t, []int{400, 404}, a.Live.Get("/v1/contacts/imports/"+id).Status)
	}
	job := imported(t, a, a.Live, app.Map{"csv": "p\n", "mapping": phone})
	require.Equal(t, "completed of 0: 0 imported, 0 updated, 0 skipped, 0 errors", outcome(job))
	a.NewOrganisation("Other").Live.Get("/v1/contacts/imports/"+job.Text("id")).Refused(404, "not_found")
}

// events counts the events of contacts, numbers and labels.
func contactEvents(a *app.App) (n int) {
	a.QueryRow(`select count(*) from ledger_events where type like 'contact.%' or type like 'number.%' or type like 'label.%'`, nil, &n)
	return n
}

func TestAnImportOfAnExportChangesNothing(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		create := func(body app.Map) string {
			body["phone"] = a.Phone()
			return a.Live.Post("/v1/contacts", body).Is(201).Text("id")
		}
		create(app.Map{"first_name": " =1+1 ", "last_name": "'=x", "company": "a,\"b\"\r\nc\nd\re", "email": "a@example.com", "labels": []string{`a;b\c`, "=x", "z"}})
		spaced := " k "
		create(app.Map{"fields": app.Map{"n": 1.50, "big": 1e300, "zero": json.Number("-0"), "t": true, "o": app.Map{"b": []any{nil, "<"}}, "e": "", "s": " x ", spaced: "v", "null": nil, "+k": "+v"}})
		create(app.Map{"consent_status": "opted_in", "consent_source": "form"})
		create(app.Map{"first_name": "", "last_name": "  "})
		out := create(app.Map{})
		a.Live.Post("/v1/contacts/"+out+"/opt-out", app.Map{"source": "call"}).Is(200)
		lifted := create(app.Map{})
		a.Live.Post("/v1/contacts/"+lifted+"/opt-out", app.Map{"source": "call"}).Is(200)
		a.Live.Post("/v1/contacts/"+lifted+"/consent", app.Map{"source": "call", "status": "unknown"}).Is(200)
		many := app.Map{}
		for n := range 150 {
			many[fmt.Sprintf("key %03d", n)] = n
		}
		create(app.Map{"fields": many})

		before := a.Live.Get("/v1/contacts/export").Is(200)
		_, columns := export(t, a.Live, "")
		mapping := app.Map{}
		for _, column := range columns {
			target := "ignore"
			switch column {
			case "phone", "first_name", "last_name", "company", "email", "labels", "consent_status":
				target = column
			}
			if strings.HasPrefix(column, "fields.") {
				target = column
			}
			mapping[column] = target
		}
		events := contactEvents(a)
		_, err := a.Clock.Advance(time.Hour)
		require.NoError(t, err)
		for _, body := range []app.Map{{"update_existing": true}, {"update_existing": true, "consent_source": "file"}, {}} {
			body["csv"], body["mapping"] = string(before.Raw), mapping
			job := imported(t, a, a.Live, body)
			require.Contains(t, outcome(job), "completed of 7: 0 imported, 0 updated, 7 skipped")
			require.Equal(t, body["update_existing"] == nil, len(errorsOf(job)) == 7)
		}
		require.Equal(t, events, contactEvents(a))
		require.Equal(t, string(before.Raw), string(a.Live.Get("/v1/contacts/export").Is(200).Raw))
	})
}

func TestExportOfAWorkspaceImportedIntoAnotherCreatesTheSameContacts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "first_name": "Anna", "labels": []string{"b;c", "a"}, "fields": app.Map{"city": "Köln", "note": "a\r\nb"}, "consent_status": "opted_in"}).Is(201)
	out := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
	a.Live.Post("/v1/contacts/"+out.Text("id")+"/opt-out", app.Map{"source": "call"}).Is(200)
	rows, _ := export(t, a.Live, "")

	other := a.NewOrganisation("Other")
	accepted := other.Live.Post("/v1/contacts/import", app.Map{
		"csv": string(a.Live.Get("/v1/contacts/export").Is(200).Raw), "consent_source": "moved house",
		"mapping": app.Map{"phone": "phone", "first_name": "first_name", "labels": "labels", "consent_status": "consent_status", "fields.city": "fields.city", "fields.note": "fields.note"},
	}).Is(202)
	a.Settle()
	require.Equal(t, "completed", other.Live.Get("/v1/contacts/imports/"+accepted.Text("id")).Is(200).Text("status"))
	moved, _ := export(t, other.Live, "")
	same := func(rows []map[string]string) (found []map[string]string) {
		for _, row := range rows {
			kept := map[string]string{}
			for _, column := range []string{"phone", "first_name", "labels", "consent_status", "fields.city", "fields.note"} {
				kept[column] = row[column]
			}
			found = append(found, kept)
		}
		return found
	}
	require.ElementsMatch(t, same(rows), same(moved))
	require.Equal(t, "opted_out", withPhone(t, other.Live, out.Text("phone"))["consent_status"], "an opt-out that a file tells is one")
	var registered int
	a.QueryRow(`select count(*) from ledger_events where type = 'number.opted_out' and organisation_id = $1`, []any{other.Organisation}, &registered)
	require.Equal(t, 1, registered, "and enters the register")
}

func TestAnImportUpdatesContactsOnlyWhenAskedTo(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	a.Live.Post("/v1/contacts", app.Map{"phone": phone, "first_name": "Anna", "last_name": "Old", "labels": []string{"kept"}, "fields": app.Map{"kept": 1, "city": "Bonn"}}).Is(201)
	body := app.Map{
		"csv":     "phone,first_name,last_name,labels,city\n" + phone + ",,New,added,Köln\n",
		"mapping": app.Map{"phone": "phone", "first_name": "first_name", "last_name": "last_name", "labels": "labels", "city": "fields.city"},
		"labels":  []string{"all"},
	}
	job := imported(t, a, a.Live, body)
	require.Equal(t, "completed of 1: 0 imported, 0 updated, 1 skipped, 1 errors", outcome(job))
	require.Equal(t, "Old", withPhone(t, a.Live, phone)["last_name"])

	body["update_existing"] = true
	job = imported(t, a, a.Live, body)
	require.Equal(t, "completed of 1: 0 imported, 1 updated, 0 skipped, 0 errors", outcome(job))
	changed := withPhone(t, a.Live, phone)
	require.Equal(t, []any{"Anna", "New"}, []any{changed["first_name"], changed["last_name"]}, "an empty cell empties nothing")
	require.Equal(t, []any{"added", "all", "kept"}, changed["labels"])
	require.Equal(t, app.Map{"kept": 1.0, "city": "Köln"}, changed["fields"])
}

func TestImportNeverOptsInAContactThatOptedOut(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		out, erased, fresh := a.Phone(), a.Phone(), a.Phone()
		for _, phone := range []string{out, erased} {
			id := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
			a.Live.Post("/v1/contacts/"+id+"/opt-out", app.Map{"source": "call"}).Is(200)
			if phone == erased {
				a.Live.Delete("/v1/contacts/" + id).Is(200)
			}
		}
		unsure := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)
		a.Live.Post("/v1/contacts/"+unsure.Text("id")+"/opt-out", app.Map{"source": "call"}).Is(200)
		a.Live.Post("/v1/contacts/"+unsure.Text("id")+"/consent", app.Map{"source": "call", "status": "unknown"}).Is(200)
		_, err := a.Clock.Advance(time.Second)
		require.NoError(t, err)
		job := imported(t, a, a.Live, app.Map{
			"csv":     "p,c\n" + out + ",opted_in\n" + erased + ",opted_in\n" + unsure.Text("phone") + ",opted_in\n" + fresh + ",opted_in\n",
			"mapping": app.Map{"p": "phone", "c": "consent_status"}, "consent_source": "list", "update_existing": true,
		})
		require.Equal(t, "completed of 4: 2 imported, 0 updated, 2 skipped, 0 errors", outcome(job))
		for phone, want := range map[string]string{out: "opted_out", erased: "opted_out", unsure.Text("phone"): "unknown", fresh: "opted_in"} {
			require.Equal(t, want, withPhone(t, a.Live, phone)["consent_status"])
		}
		var lifted int
		a.QueryRow(`select count(*) from ledger_events where type = 'number.opted_in'`, nil, &lifted)
		require.Zero(t, lifted)
	})
}

func TestConsentColumnAppliesToExistingContacts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	second := a.NewWorkspace("Second")
	unknown, in, out := a.Phone(), a.Phone(), a.Phone()
	a.Live.Post("/v1/contacts", app.Map{"phone": unknown}).Is(201)
	a.Live.Post("/v1/contacts", app.Map{"phone": in, "consent_status": "opted_in"}).Is(201)
	a.Live.Post("/v1/contacts", app.Map{"phone": out, "consent_status": "opted_in"}).Is(201)
	second.Live.Post("/v1/contacts", app.Map{"phone": out}).Is(201)
	body := app.Map{
		"csv":     "p,c\n" + unknown + ",opted_in\n" + in + ",unknown\n" + out + ",opted_out\n",
		"mapping": app.Map{"p": "phone", "c": "consent_status"}, "update_existing": true,
	}
	job := imported(t, a, a.Live, body)
	require.Equal(t, "completed of 3: 0 imported, 1 updated, 2 skipped, 1 errors", outcome(job))
	require.Contains(t, errorsOf(job)[2], "consent_source")
	require.Equal(t, "opted_in", withPhone(t, a.Live, in)["consent_status"], "a file that does not know takes nothing back")
	require.Equal(t, "opted_out", withPhone(t, a.Live, out)["consent_status"])
	require.Equal(t, "import", withPhone(t, a.Live, out)["consent_source"])
	require.Equal(t, "opted_out", withPhone(t, second.Live, out)["consent_status"], "in every workspace")

	body["consent_source"] = "form"
	job = imported(t, a, a.Live, body)
	require.Equal(t, "completed of 3: 0 imported, 1 updated, 2 skipped, 0 errors", outcome(job))
	require.Equal(t, []any{"opted_in", "form"}, []any{withPhone(t, a.Live, unknown)["consent_status"], withPhone(t, a.Live, unknown)["consent_source"]})
}

func TestAnImportIsAcceptedOnceUnderOneKey(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	body := app.Map{"csv": "p\n" + a.Phone() + "\n", "mapping": app.Map{"p": "phone"}}
	first := a.Live.IdempotencyKey("once").Post("/v1/contacts/import", body).Is(202)
	a.Settle()
	again := a.Live.IdempotencyKey("once").Post("/v1/contacts/import", body).Is(202)
	require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
	require.Equal(t, first.Text("id"), again.Text("id"))
	body["update_existing"] = true
	a.Live.IdempotencyKey("once").Post("/v1/contacts/import", body).Refused(409, "idempotency_conflict")
	a.Settle()
	var jobs, files int
	a.QueryRow(`select (select count(*) from ledger_events where type = 'import.requested'), (select count(*) from import_files)`, nil, &jobs, &files)
	require.Equal(t, []int{1, 0}, []int{jobs, files})
}

func TestImportWithATestKeyCreatesTestContacts(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	job := imported(t, a, a.Test, app.Map{"csv": "p\n" + a.Phone() + "\n", "mapping": app.Map{"p": "phone"}})
	require.Equal(t, "completed of 1: 1 imported, 0 updated, 0 skipped, 0 errors", outcome(job))
	var tests int
	a.QueryRow(`select count(*) from ledger_events where type = 'contact.created' and (data->>'is_test')::boolean`, nil, &tests)
	require.Equal(t, 1, tests)
}

// manyRows returns a CSV file of n unused numbers.
func manyRows(n int) (file string) {
	var b strings.Builder
	b.WriteString("phone,name,labels\n")
	for i := range n {
		fmt.Fprintf(&b, "+1628%07d,Name %d,label %d\n", 2_000_000+i, i, i%3)
	}
	return b.String()
}

var manyMapping = app.Map{"phone": "phone", "name": "first_name", "labels": "labels"}

func TestImportResumesOnAnotherNodeAndAppliesNoRowTwice(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.Nodes(service.Roles{Write: true, Read: true, Project: true}, service.Roles{Process: true}))
		const n = 12_000 // more than one task run imports
		path := "/v1/contacts/imports/" + a.Live.Post("/v1/contacts/import", app.Map{"csv": manyRows(n), "mapping": manyMapping}).Is(202).Text("id")
		var job app.Answer
		require.Eventually(t, func() bool {
			job = a.Live.Get(path).Is(200)
			rows, _ := job.At("imported").(float64)
			return rows > 0
		}, 20*time.Second, time.Millisecond)
		a.Nodes[1].Stop()
		stopped := a.Live.Get(path).Is(200)
		require.Equal(t, "running", stopped.Text("status"), "progress is shown while the job runs, and stands still without a process")
		require.Less(t, stopped.At("imported"), float64(n))
		a.StartNode(service.Roles{Process: true})
		a.Settle()
		require.Equal(t, fmt.Sprintf("completed of %d: %d imported, 0 updated, 0 skipped, 0 errors", n, n), outcome(a.Live.Get(path).Is(200)))
		var created, linked, phones, labels, read int
		a.QueryRow(`select (select count(*) from ledger_events where type = 'contact.created'), (select count(*) from ledger_events where type = 'number.linked'),
			(select count(distinct stream) from ledger_events where type = 'number.linked'), (select count(*) from ledger_events where type = 'label.created'),
			(select count(*) from read.contacts)`, nil, &created, &linked, &phones, &labels, &read)
		require.Equal(t, []int{n, n, n, 3, n}, []int{created, linked, phones, labels, read})
	})
}

func TestImportAndConcurrentRequestsForTheSameNumbersCreateEachContactOnce(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(app.Everything, app.Everything))
	const n = 600
	accepted := a.Live.Post("/v1/contacts/import", app.Map{"csv": manyRows(n), "mapping": manyMapping}).Is(202)
	var writers sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for w := range 4 {
		c := a.Live.OnNode(a.Nodes[w%2])
		writers.Go(func() {
			for i := w; i < n; i += 4 {
				answer := c.Post("/v1/contacts", app.Map{"phone": fmt.Sprintf("+1628%07d", 2_000_000+(n-1-i)), "labels": []string{"label 1"}})
				mu.Lock()
				if answer.Status == 201 {
					made++
				} else {
					require.Equal(t, 409, answer.Status, "%s", answer.Raw)
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	a.Settle()
	job := a.Live.Get("/v1/contacts/imports/" + accepted.Text("id")).Is(200)
	require.Equal(t, fmt.Sprintf("completed of %d: %d imported, 0 updated, %d skipped, %d errors", n, n-made, made, made), outcome(job))
	var contacts, labels int
	a.QueryRow(`select (select count(*) from read.contacts), (select count(*) from read.labels)`, nil, &contacts, &labels)
	require.Equal(t, []int{n, 3}, []int{contacts, labels})
}

func TestContactErasedDuringAnImportIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.Nodes(service.Roles{Write: true, Read: true, Project: true}))
	phone := a.Phone()
	id := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	accepted := a.Live.Post("/v1/contacts/import", app.Map{"csv": "p\n" + phone + "\n", "mapping": app.Map{"p": "phone"}, "update_existing": true}).Is(202)
	_, err := a.Clock.Advance(time.Second)
	require.NoError(t, err)
	a.Live.Delete("/v1/contacts/" + id).Is(200)
	a.StartNode(service.Roles{Process: true})
	a.Settle()
	job := a.Live.Get("/v1/contacts/imports/" + accepted.Text("id")).Is(200)
	require.Equal(t, "completed of 1: 0 imported, 0 updated, 1 skipped, 1 errors", outcome(job))
	require.Empty(t, a.Live.Get("/v1/contacts").Is(200).Data())
}

func TestImportFailsWhenItsFileIsUnreadable(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	a.Exec(`create function lose() returns trigger language plpgsql as $$ begin new.sealed = 'x'; return new; end $$`)
	a.Exec(`create trigger lose before insert on import_files for each row execute function lose()`)
	job := imported(t, a, a.Live, app.Map{"csv": "p\n" + a.Phone() + "\n", "mapping": app.Map{"p": "phone"}})
	require.Equal(t, "failed of 1: 0 imported, 0 updated, 0 skipped, 0 errors", outcome(job))
}
