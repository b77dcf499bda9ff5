package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/csvfile"
	"ledgerline/test/app"
)

// export reads the rows of an export by the names of their columns, and its columns.
func export(t *testing.T, c *app.Client, query string) (rows []map[string]string, columns []string) {
	t.Helper()
	return exportOf(t, c, "contacts", query)
}

// exportOf is export for another resource.
func exportOf(t *testing.T, c *app.Client, resource, query string) (rows []map[string]string, columns []string) {
	t.Helper()
	answer := c.Get("/v1/" + resource + "/export" + query).Is(200)
	require.True(t, bytes.HasPrefix(answer.Raw, []byte("\ufeffid,")), "%.20q", answer.Raw)
	file, err := csvfile.NewReader(string(answer.Raw))
	require.NoError(t, err)
	for {
		row, err := file.Next()
		if errors.Is(err, io.EOF) {
			return rows, file.Header()
		}
		require.NoError(t, err)
		require.Len(t, row.Cells, len(file.Header()))
		named := map[string]string{}
		for i, cell := range row.Cells {
			named[file.Header()[i]] = cell
		}
		rows = append(rows, named)
	}
}

func TestExportHasAllFieldsOfAContact(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	made := a.Live.Post("/v1/contacts", app.Map{
		"phone": phone, "first_name": "=1+1", "last_name": "O'Neil", "company": "Say \"hi\", twice\r\nand again", "email": "a@example.com", "labels": []string{"b;c", "A"},
		"owner_user_id": a.Users["agent"], "consent_status": "opted_in", "consent_source": "form",
		"fields": app.Map{"city": "Köln", "age": 41, "vip": true, "tags": []any{"x", 1}, "none": nil, "<b>": "@x"},
	}).Is(201)
	a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201)

	answer := a.Live.Get("/v1/contacts/export").Is(200)
	require.Equal(t, "text/csv; charset=utf-8; header=present", answer.Header.Get("content-type"))
	require.Equal(t, `attachment; filename="contacts-2026-03-02.csv"`, answer.Header.Get("content-disposition"))
	raw := string(answer.Raw)
	require.Contains(t, raw, ",'"+phone+",'=1+1,O'Neil,")
	require.Equal(t, 3, strings.Count(raw, "\r\n")-1, "a header and two rows, and one line break within a cell")

	rows, columns := export(t, a.Live, "")
	require.Equal(t, []string{
		"id", "phone", "first_name", "last_name", "company", "email", "labels", "consent_status", "consent_at", "consent_source", "owner_user_id",
		"assigned_line_id", "chat_capable", "capability_checked_at", "first_reply_at", "last_inbound_at", "last_outbound_at", "created_at", "updated_at",
		"fields.<b>", "fields.age", "fields.city", "fields.none", "fields.tags", "fields.vip",
	}, columns)
	require.Len(t, rows, 2)
	require.Equal(t, map[string]string{
		"id": made.Text("id"), "phone": phone, "first_name": "=1+1", "last_name": "O'Neil", "company": "Say \"hi\", twice\r\nand again", "email": "a@example.com",
		"labels": `A;b\;c`, "consent_status": "opted_in", "consent_at": made.Text("consent_at"), "consent_source": "form", "owner_user_id": made.Text("owner_user_id"),
		"assigned_line_id": "", "chat_capable": "", "capability_checked_at": "", "first_reply_at": "", "last_inbound_at": "", "last_outbound_at": "",
		"created_at": made.Text("created_at"), "updated_at": made.Text("updated_at"),
		"fields.<b>": "@x", "fields.age": "41", "fields.city": "Köln", "fields.none": "", "fields.tags": `["x",1]`, "fields.vip": "true",
	}, rows[1], "newest first")
}

func TestExportHasTheContactsThatTheCallerSeesAndFiltersFor(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phones := func(c *app.Client, query string) (found []string) {
		rows, _ := export(t, c, query)
		for _, row := range rows {
			found = append(found, row["phone"])
		}
		return found
	}
	agents := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "owner_user_id": a.Users["agent"], "labels": []string{"Red"}}).Is(201).Text("phone")
	managers := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "owner_user_id": a.Users["manager"], "labels": []string{"red", "Blue"}}).Is(201)
	nobodys := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in"}).Is(201).Text("phone")
	a.Live.Post("/v1/contacts/"+managers.Text("id")+"/opt-out", app.Map{"source": "call"}).Is(200)

	require.Equal(t, []string{nobodys, managers.Text("phone"), agents}, phones(a.Live, ""))
	require.Equal(t, []string{nobodys, agents}, phones(a.Sessions["agent"], ""))
	require.Equal(t, []string{managers.Text("phone"), agents}, phones(a.Live, "?label=RED&format=csv"))
	require.Equal(t, []string{agents}, phones(a.Sessions["agent"], "?label=red"))
	require.Equal(t, []string{managers.Text("phone")}, phones(a.Live, "?consent_status=opted_out"))
	require.Empty(t, phones(a.Live, "?label=red&consent_status=opted_in"))
	require.Empty(t, phones(a.NewOrganisation("Other").Live, ""), "another workspace's contacts are not seen")

	a.Live.Get("/v1/contacts/export?format=xlsx").Refused(400, "validation_failed", "query /format invalid_value")
	a.Live.Get("/v1/contacts/export?consent_status=x&label="+strings.Repeat("x", 65)).Refused(400, "validation_failed", "query /consent_status invalid_value", "query /label too_long")
	a.Live.Get("/v1/contacts/export?segment_id=0195573c-0000-7000-8000-000000000000").Refused(400, "validation_failed", "query /segment_id not_found")
	a.Anonymous().Get("/v1/contacts/export").Refused(401, "unauthorized")
	a.Sessions["billing"].Get("/v1/contacts/export").Refused(403, "forbidden")
}

func TestRareCustomFieldsAreExportedInOneColumn(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	for i := range 3 {
		fields := app.Map{"common": i, strings.Repeat("k", 101): "long", "": "nameless"}
		for n := range 100 {
			fields[fmt.Sprintf("wild_%d_%d", i, n)] = n
		}
		a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "fields": fields}).Is(201)
	}
	rows, columns := export(t, a.Live, "")
	require.Len(t, columns, 19+200+1)
	require.Contains(t, columns, "fields.common", "what most have comes first")
	require.Equal(t, "other_fields", columns[len(columns)-1])
	for _, row := range rows {
		require.Contains(t, row["other_fields"], `"long"`)
		require.Contains(t, row["other_fields"], `"nameless"`)
		known := 0
		for _, column := range columns[19 : 19+200] {
			if row[column] != "" {
				known++
			}
		}
		require.Equal(t, 103, known+strings.Count(row["other_fields"], ":"), "every field is exported once")
	}
}

func TestExportOfMessagesHasTheFiltersOfTheListAndWhatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone, other := a.Phone(), a.Phone()
	sent := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "=SUM(1)\nand \"more\"", "external_id": "o-1", "metadata": app.Map{"order": 7}}).Is(201)
	a.Live.Post("/v1/messages", app.Map{"to": other, "body": "Hi"}).Is(201)
	rows, columns := exportOf(t, a.Live, "messages", "")
	require.Len(t, rows, 2)
	require.Equal(t, "Hi", rows[0]["body"], "newest first")
	for property := range sent.JSON() {
		require.Contains(t, columns, property)
	}
	rows, _ = exportOf(t, a.Live, "messages", "?external_id=o-1&direction=outbound&to="+url.QueryEscape(phone))
	require.Len(t, rows, 1)
	require.Equal(t, []string{sent.Text("id"), "=SUM(1)\nand \"more\"", phone, "false", `{"order":7}`, ""},
		[]string{rows[0]["id"], rows[0]["body"], rows[0]["to"], rows[0]["is_test"], rows[0]["metadata"], rows[0]["media"]})
	rows, _ = exportOf(t, a.Live, "messages", "?created_before=2000-01-01T00:00:00Z")
	require.Empty(t, rows)

	conversation := sent.Text("conversation_id")
	a.Live.Do("PATCH", "/v1/conversations/"+conversation, app.Map{"assignee_user_id": a.Users["owner"]}).Is(200)
	rows, _ = exportOf(t, a.Sessions["agent"], "messages", "")
	require.Len(t, rows, 1, "an agent exports what it may see")
	rows, _ = exportOf(t, a.NewWorkspace("Other").Live, "messages", "")
	require.Empty(t, rows, "another workspace")
	a.Live.Get("/v1/messages/export?status=gone").Refused(400, "validation_failed", "query /status invalid_value")
	a.Sessions["billing"].Get("/v1/messages/export").Refused(403, "forbidden")
}
