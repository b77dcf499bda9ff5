package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/commands/sending"
	"ledgerline/domain/apikey"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/test/app"
)

func lookup(c *app.Client, phone string) app.Answer {
	return c.Post("/v1/lookup", app.Map{"phone": phone})
}

func TestLookupIsReusedFor30DaysInTheOrganisation(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	other := a.NewWorkspace("Other")
	stranger := a.NewOrganisation("Stranger")
	on, off := a.SandboxNumber(1), a.SandboxNumber(80)
	contact := a.Live.Post("/v1/contacts", app.Map{"phone": on}).Is(201)
	require.Nil(t, contact.At("chat_capable"))

	require.Equal(t, app.Map{"phone": on, "chat": true, "checked_at": stamp(0), "cached": false}, lookup(a.Live, on).Is(200).JSON())
	require.Equal(t, app.Map{"phone": off, "chat": false, "checked_at": stamp(0), "cached": false}, lookup(a.Live, off).Is(200).JSON())
	seen := a.Live.Get("/v1/contacts/" + contact.Text("id")).Is(200).JSON()
	shows(t, seen, app.Map{"chat_capable": true, "capability_checked_at": stamp(0)})

	a.Advance(30*24*time.Hour - time.Millisecond)
	for _, w := range []*app.Workspace{a.Workspace, other} {
		require.Equal(t, app.Map{"phone": off, "chat": false, "checked_at": stamp(0), "cached": true}, lookup(w.Live, off).Is(200).JSON())
	}
	require.Equal(t, false, lookup(stranger.Live, off).Is(200).At("cached"), "nothing is shared between organisations")
	late := other.Live.Post("/v1/contacts", app.Map{"phone": off}).Is(201).JSON()
	shows(t, late, app.Map{"chat_capable": false, "capability_checked_at": stamp(0)})

	a.Advance(time.Millisecond)
	again := app.Map{"phone": off, "chat": false, "checked_at": stamp(30 * 24 * time.Hour), "cached": false}
	require.Equal(t, again, lookup(a.Live, off).Is(200).JSON())
	shows(t, other.Live.Get("/v1/contacts/"+text(late, "id")).Is(200).JSON(), app.Map{"capability_checked_at": again["checked_at"]})
}

func TestLookupNeedsScopeReadOrSendAndATestKeyLooksUpOnlySandboxNumbers(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	for _, scope := range []apikey.Scope{apikey.Read, apikey.Send} {
		lookup(a.Key(apikey.Live, nil, scope), phone).Is(200)
	}
	lookup(a.Key(apikey.Live, nil, apikey.Admin), phone).Refused(403, "forbidden")
	lookup(a.Sessions[organisation.Manager], phone).Is(200)
	lookup(a.Sessions[organisation.Agent], phone).Refused(403, "forbidden")

	require.Equal(t, false, lookup(a.Test, a.SandboxNumber(88)).Is(200).At("chat"))
	lookup(a.Test, phone).Refused(400, "validation_failed", "body /phone not_sandbox")
	lookup(a.Live, "12").Refused(400, "validation_failed", "body /phone invalid_phone")
	a.Live.Post("/v1/lookup", app.Map{}).Refused(400, "validation_failed", "body /phone required")
}

func TestALookupIsAskedThroughALineThatCanSend(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	known, unknown := a.Phone(), a.Phone()
	lookup(a.Live, known).Is(200)
	move := func(l app.Line) {
		_, err := a.Nodes[0].App.ChangeLineState(t.Context(), a.Operator(), l.ID, "quarantined", nil)
		require.NoError(t, err)
	}
	move(a.Lines[0])
	lookup(a.Live, unknown).Is(200)
	move(a.Lines[1])
	lookup(a.Live, a.Phone()).Refused(409, "conflict")
	require.Equal(t, true, lookup(a.Live, known).Is(200).At("cached"), "what is known needs no line")
}

func TestARepeatedLookupGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	first := lookup(a.Live.IdempotencyKey("k1"), phone).Is(200)
	again := lookup(a.Live.IdempotencyKey("k1"), phone).Is(200)
	require.Equal(t, string(first.Raw), string(again.Raw), "also cached is as it was")
	require.Equal(t, "true", again.Header.Get("idempotent-replayed"))
}

func TestCapabilityFoundBySendingIsReusedByLookups(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	id := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "later", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	_, known, err := a.Nodes[0].App.Sending.Capability(t.Context(), a.Organisation, phone)
	require.NoError(t, err)
	require.False(t, known)
	_, err = a.Nodes[0].App.Sending.RecordCapability(t.Context(), commands.Request{Actor: events.Actor{Type: "system", ID: "sending"}},
		sending.CapabilityAnswer{Phone: phone, Chat: false, LineID: a.Lines[0].ID, MessageID: id})
	require.NoError(t, err)

	chat, known, err := a.Nodes[0].App.Sending.Capability(t.Context(), a.Organisation, phone)
	require.NoError(t, err)
	require.True(t, known)
	require.False(t, chat.OnChat)
	checked := object(a.Live.Get("/v1/messages/" + id + "/events").Is(200).Data()[1])
	require.Equal(t, "capability_checked", checked["type"])
	require.Equal(t, app.Map{"chat": false, "cached": false, "checked_at": stamp(0), "line_id": a.Lines[0].ID}, checked["detail"])
	shows(t, lookup(a.Live, phone).Is(200).JSON(), app.Map{"chat": false, "cached": true})
	require.Equal(t, false, a.Live.Get("/v1/contacts/"+text(message(a.Live, id), "contact_id")).Is(200).At("chat_capable"))
}
