package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/test/app"
)

func TestOrganisationThatRequiresConsentMessagesOnlyContactsThatOptedIn(t *testing.T) {
	t.Parallel()
	a := app.Start(t, app.TwoNodes())
	yes, no := true, false
	asks := func(consent *bool) {
		t.Helper()
		_, err := a.Nodes[1].App.SetCompliance(t.Context(), a.Operator(), organisation.ComplianceChange{RequireConsent: consent})
		require.NoError(t, err)
	}
	unknown := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone()}).Is(201).Text("id")
	willing := a.Live.Post("/v1/contacts", app.Map{"phone": a.Phone(), "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
	scheduled := a.Live.Post("/v1/messages", app.Map{"contact_id": unknown, "body": "x", "send_at": stamp(time.Hour)}).Is(201).Text("id")
	asks(&yes)
	contacts := len(a.Live.Get("/v1/contacts").Is(200).Data())
	a.Live.Post("/v1/messages", app.Map{"contact_id": unknown, "body": "x"}).Refused(422, "consent_required")
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Refused(422, "consent_required")
	require.Len(t, a.Live.Get("/v1/contacts").Is(200).Data(), contacts, "no contact is made for a message that is refused")
	sent := a.Live.Post("/v1/messages", app.Map{"contact_id": willing, "body": "x"}).Is(201).Text("id")
	a.Advance(time.Hour)
	shows(t, message(a.Live, sent), app.Map{"status": "delivered"})
	shows(t, message(a.Live, scheduled), app.Map{"status": "failed", "error_code": "consent_required"})
	a.Live.Post("/v1/contacts/"+unknown+"/consent", app.Map{"status": "opted_in", "source": "form"}).Is(200)
	a.Live.Post("/v1/messages", app.Map{"contact_id": unknown, "body": "x"}).Is(201)
	asks(&no)
	a.Live.Post("/v1/messages", app.Map{"to": a.Phone(), "body": "x"}).Is(201)
}

func TestQuietHoursStopWordsAndConfirmationOfTheOrganisationAreUsed(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	words, text := []string{"basta"}, "That was all."
	_, err := a.Nodes[0].App.SetCompliance(t.Context(), a.Operator(), organisation.ComplianceChange{
		QuietHours: &events.QuietHours{Start: "12:00", End: "10:00"}, StopWords: &words, OptOutConfirmation: &text,
	})
	require.NoError(t, err)
	phone := "+12125550142" // in New York, where it is noon
	id := a.Live.Post("/v1/messages", app.Map{"to": phone, "body": "x"}).Is(201).Text("id")
	a.Settle()
	shows(t, message(a.Live, id), app.Map{"status": "queued", "scheduled_for": stamp(22 * time.Hour)})
	a.Inbound(phone, a.Lines[0].Phone, "Basta!")
	a.Settle()
	shows(t, message(a.Live, id), app.Map{"status": "failed", "error_code": "contact_opted_out"})
	require.Contains(t, a.Live.Get("/v1/messages?direction=outbound").Is(200).Column("body"), text)
}
