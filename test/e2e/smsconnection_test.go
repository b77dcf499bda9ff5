package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/twilio/twiliotest"
	"ledgerline/domain/organisation"
	"ledgerline/service"
	"ledgerline/test/app"
)

const (
	smsAccount = "AC0123456789abcdef0123456789abcdef"
	smsToken   = "a-token-that-nobody-may-see"
	smsService = "MG0123456789abcdef0123456789abcdef"
	smsNumber  = "+12125550300"
	smsNumber2 = "+12125550301"
	smsBase    = "https://ledgerline.example"
)

// smsWorld is the service with a stand-in of the SMS provider, which reports through a proxy at smsBase.
func smsWorld(t *testing.T, opts ...app.Option) (*app.App, *twiliotest.Server) {
	t.Helper()
	provider := twiliotest.Start(t)
	provider.AddAccount(smsAccount, smsToken, smsNumber, smsNumber2)
	provider.AddService(smsAccount, smsService)
	cfg := service.SMSConfig{URL: provider.URL(), CallTimeout: 2 * time.Second, AcceptWindow: 3 * time.Second}
	a := app.Start(t, append([]app.Option{app.BaseURL(smsBase), app.SMSProvider(cfg)}, opts...)...)
	provider.Forward(smsBase, a.Nodes[0].URL)
	return a, provider
}

// connection creates a connection as the owner of the workspace; in overrides its properties.
func connection(a *app.App, in app.Map) app.Answer {
	body := app.Map{"account_sid": smsAccount, "auth_token": smsToken, "from_numbers": []string{smsNumber}, "compliance_confirmed": true}
	for name, value := range in {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	return a.Sessions[organisation.Owner].Post("/v1/sms-connections", body)
}

func TestSMSConnectionIsVerifiedWhenItIsCreated(t *testing.T) {
	t.Parallel()
	a, provider := smsWorld(t)
	made := connection(a, app.Map{"prefix_org_name": true, "configure_inbound_webhook": true, "provider": "sms_provider"}).Is(201)
	id := made.Text("id")
	require.True(t, strings.HasPrefix(id, "smc_"))
	shows(t, made.JSON(), app.Map{
		"provider": "sms_provider", "account_sid": smsAccount, "has_auth_token": true, "auth_token_last4": "-see", "messaging_service_sid": nil,
		"from_numbers": []any{smsNumber}, "prefix_org_name": true, "status": "active", "last_error": nil, "last_verified_at": stamp(0),
		"compliance_confirmed_at": stamp(0), "compliance_confirmed_by": a.Users[organisation.Owner].String(),
		"inbound_webhook_url": smsBase + "/carriers/sms/" + id, "inbound_webhook_configured_at": stamp(0), "created_at": stamp(0), "updated_at": stamp(0),
	})
	require.Equal(t, smsBase+"/carriers/sms/"+id, provider.InboundURL(smsAccount, smsNumber))
	require.Equal(t, made.JSON(), a.Live.Get("/v1/sms-connections/"+id).Is(200).JSON())
	require.Equal(t, []app.Map{made.JSON()}, a.Live.Get("/v1/sms-connections").Is(200).Data())
}

func TestVerificationSaysInPlainWordsWhatIsWrong(t *testing.T) {
	t.Parallel()
	a, provider := smsWorld(t)
	dev := a.Sessions[organisation.Developer]
	made := connection(a, app.Map{"auth_token": "bad token of somebody"}).Is(201)
	shows(t, made.JSON(), app.Map{"status": "failing", "last_error": "The provider refused the credentials.", "last_verified_at": nil})
	path := "/v1/sms-connections/" + made.Text("id")
	verify := func(in app.Map) app.Answer {
		shows(t, dev.Do("PATCH", path, in).Is(200).JSON(), app.Map{"status": "pending", "last_error": nil})
		return dev.Post(path+"/verify", nil).Is(200)
	}
	shows(t, verify(app.Map{"auth_token": smsToken}).JSON(), app.Map{"status": "active", "last_error": nil, "last_verified_at": stamp(0)})
	shows(t, verify(app.Map{"from_numbers": []string{}}).JSON(), app.Map{"status": "failing", "last_error": "There is no sender: give a messaging service or from numbers."})
	shows(t, verify(app.Map{"from_numbers": []string{smsNumber, "+12125550309"}}).JSON(), app.Map{"last_error": "These numbers are not in the account: +12125550309."})
	shows(t, verify(app.Map{"messaging_service_sid": "MG" + strings.Repeat("f", 32)}).JSON(), app.Map{"last_error": "The messaging service does not exist."})
	shows(t, verify(app.Map{"messaging_service_sid": smsService}).JSON(), app.Map{"status": "active"}) // a service wins over numbers
	shows(t, verify(app.Map{"messaging_service_sid": nil, "from_numbers": []string{smsNumber2}}).JSON(), app.Map{"status": "active", "messaging_service_sid": nil})
	provider.SetStatus(smsAccount, "suspended")
	shows(t, dev.Post(path+"/verify", nil).Is(200).JSON(), app.Map{"status": "failing", "last_error": "The account is not active at the provider."})
	provider.SetStatus(smsAccount, "active")
	provider.SetMode(twiliotest.Down)
	shows(t, dev.Post(path+"/verify", nil).Is(200).JSON(), app.Map{"last_error": "The provider could not answer. Try again later."})
	provider.SetMode(twiliotest.LosesRequests)
	shows(t, dev.Post(path+"/verify", nil).Is(200).JSON(), app.Map{"last_error": "The provider could not be reached."})
	provider.SetMode(twiliotest.Working)
	shows(t, dev.Post(path+"/verify", nil).Is(200).JSON(), app.Map{"status": "active", "last_error": nil})
}

func TestVerificationWorksFromEveryStatus(t *testing.T) {
	t.Parallel()
	a, _ := smsWorld(t)
	path := "/v1/sms-connections/" + connection(a, nil).Is(201).Text("id")
	patch := func(in app.Map) app.Map { return a.Live.Do("PATCH", path, in).Is(200).JSON() }
	shows(t, patch(app.Map{"disabled": true}), app.Map{"status": "disabled"})
	shows(t, a.Live.Post(path+"/verify", app.Map{}).Is(200).JSON(), app.Map{"status": "active"})
	shows(t, patch(app.Map{"disabled": true}), app.Map{"status": "disabled"})
	shows(t, patch(app.Map{"disabled": false}), app.Map{"status": "pending"})
	shows(t, a.Live.Post(path+"/verify", nil).Is(200).JSON(), app.Map{"status": "active"})
}

func TestPatchThatChangesNothingLeavesTheStatus(t *testing.T) {
	t.Parallel()
	a, _ := smsWorld(t)
	path := "/v1/sms-connections/" + connection(a, nil).Is(201).Text("id")
	same := app.Map{"account_sid": smsAccount, "auth_token": smsToken, "from_numbers": []string{smsNumber}, "messaging_service_sid": nil, "disabled": false}
	shows(t, a.Live.Do("PATCH", path, same).Is(200).JSON(), app.Map{"status": "active"})
	shows(t, a.Live.Do("PATCH", path, app.Map{"prefix_org_name": true}).Is(200).JSON(), app.Map{"status": "active", "prefix_org_name": true})
	shows(t, a.Live.Do("PATCH", path, app.Map{"auth_token": "another"}).Is(200).JSON(), app.Map{"status": "pending", "auth_token_last4": "her", "compliance_confirmed_at": stamp(0)})
	shows(t, a.Live.Do("PATCH", path, app.Map{"account_sid": "AC" + strings.Repeat("0", 32)}).Is(200).JSON(),
		app.Map{"status": "pending", "compliance_confirmed_at": nil, "compliance_confirmed_by": nil})
}

func TestOnlyAUserConfirmsComplianceAndConfiguresTheInboundWebhook(t *testing.T) {
	t.Parallel()
	a, provider := smsWorld(t)
	body := app.Map{"account_sid": smsAccount, "auth_token": smsToken, "from_numbers": []string{smsNumber}}
	for _, only := range []string{"compliance_confirmed", "configure_inbound_webhook"} {
		body[only] = true
		a.Live.Post("/v1/sms-connections", body).Refused(403, "forbidden")
		body[only] = false
	}
	id := a.Live.Post("/v1/sms-connections", body).Is(201).Text("id")
	path := "/v1/sms-connections/" + id
	require.Empty(t, provider.InboundURL(smsAccount, smsNumber), "nothing at the provider is changed without consent")
	a.Live.Do("PATCH", path, app.Map{"compliance_confirmed": true}).Refused(403, "forbidden")
	a.Live.Post(path+"/verify", app.Map{"configure_inbound_webhook": true}).Refused(403, "forbidden")
	user := a.Sessions[organisation.Developer]
	shows(t, user.Do("PATCH", path, app.Map{"compliance_confirmed": true}).Is(200).JSON(), app.Map{
		"compliance_confirmed_at": stamp(0), "compliance_confirmed_by": a.Users[organisation.Developer].String(),
	})
	shows(t, a.Live.Do("PATCH", path, app.Map{"compliance_confirmed": false}).Is(200).JSON(), app.Map{"compliance_confirmed_at": nil, "compliance_confirmed_by": nil})
	shows(t, user.Post(path+"/verify", app.Map{"configure_inbound_webhook": true}).Is(200).JSON(), app.Map{"inbound_webhook_configured_at": stamp(0)})
	require.Equal(t, smsBase+"/carriers/sms/"+id, provider.InboundURL(smsAccount, smsNumber))
	user.Do("PATCH", path, app.Map{"messaging_service_sid": smsService}).Is(200)
	user.Post(path+"/verify", app.Map{"configure_inbound_webhook": true}).Is(200)
	require.Equal(t, smsBase+"/carriers/sms/"+id, provider.InboundURL(smsAccount, smsService))
}

func TestAWorkspaceHasOneSMSConnection(t *testing.T) {
	t.Parallel()
	a, _ := smsWorld(t)
	id := connection(a, nil).Is(201).Text("id")
	refused := connection(a, nil).Refused(409, "conflict")
	require.Equal(t, id, refused.Text("error.details.connection_id"))
	other := a.NewOrganisation("Other")
	other.Live.Get("/v1/sms-connections/"+id).Refused(404, "not_found")
	other.Live.Do("PATCH", "/v1/sms-connections/"+id, app.Map{"disabled": true}).Refused(404, "not_found")
	other.Live.Delete("/v1/sms-connections/"+id).Refused(404, "not_found")
	other.Live.Post("/v1/sms-connections/"+id+"/verify", nil).Refused(404, "not_found")
	require.Empty(t, other.Live.Get("/v1/sms-connections").Is(200).Data())
	require.Equal(t, app.Map{"deleted": true, "id": id}, a.Live.Delete("/v1/sms-connections/"+id).Is(200).JSON())
	a.Live.Get("/v1/sms-connections/"+id).Refused(404, "not_found")
	connection(a, nil).Is(201)
}

func TestFormOfAnSMSConnectionIsChecked(t *testing.T) {
	t.Parallel()
	a, _ := smsWorld(t)
	a.Live.Post("/v1/sms-connections", app.Map{}).Refused(400, "validation_failed", "body /account_sid required", "body /auth_token required")
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprintf("+1212555%04d", i)
	}
	a.Live.Post("/v1/sms-connections", app.Map{
		"account_sid": "AC1", "auth_token": strings.Repeat("x", 201), "messaging_service_sid": "PN" + strings.Repeat("0", 32), "from_numbers": []string{smsNumber, "0123", smsNumber},
	}).Refused(400, "validation_failed", "body /account_sid invalid_format", "body /auth_token invalid_length", "body /messaging_service_sid invalid_format",
		"body /from_numbers/1 invalid_phone", "body /from_numbers/2 duplicate")
	a.Live.Post("/v1/sms-connections", app.Map{"account_sid": smsAccount, "auth_token": "x", "from_numbers": many, "provider": "other"}).
		Refused(400, "validation_failed", "body /from_numbers too_many_items", "body /provider invalid_value")
}

func TestCredentialsOfAnSMSConnectionAreNowhereInTheClear(t *testing.T) {
	t.Parallel()
	a, _ := smsWorld(t)
	dev := a.Sessions[organisation.Developer]
	made := connection(a, nil).Is(201)
	require.NotContains(t, string(made.Raw), smsToken)
	id := made.Text("id")
	again := "a-second-token-of-the-account"
	require.NotContains(t, string(dev.IdempotencyKey("rotate").Do("PATCH", "/v1/sms-connections/"+id, app.Map{"auth_token": again}).Is(200).Raw), again)
	a.Settle()
	var events, bodies string
	a.QueryRow(`select string_agg(data::text, ' ') from ledger_events where stream = $1`, []any{id}, &events)
	require.NotContains(t, events, smsToken)
	require.NotContains(t, events, smsAccount)
	a.QueryRow(`select coalesce(string_agg(x::text, ' '), '') from read.sms_connections x`, nil, &bodies)
	require.NotContains(t, bodies, again)
	var audit []byte
	audit, err := json.Marshal(a.Sessions[organisation.Owner].Get("/v1/audit-log?target_type=sms_connection").Is(200).Data())
	require.NoError(t, err)
	require.NotContains(t, string(audit), smsToken)
	require.Contains(t, string(audit), "sms_connection.updated")

	a.Live.Delete("/v1/sms-connections/" + id).Is(200)
	a.Settle()
	var keys int
	a.QueryRow(`select count(*) from ledger_keys where subject = $1 and wrapped is not null`, []any{id}, &keys)
	require.Zero(t, keys, "deleting destroys the key of the credentials")
	kinds := a.Sessions[organisation.Owner].Get("/v1/audit-log?target_type=sms_connection").Is(200).Column("type")
	require.Equal(t, "sms_connection.deleted", kinds[0], "the audit log keeps a record")
}

func TestTestTextNamesTheOrganisationAndHasLimits(t *testing.T) {
	t.Parallel()
	a, provider := smsWorld(t)
	user := a.Sessions[organisation.Developer]
	id := connection(a, app.Map{"compliance_confirmed": nil}).Is(201).Text("id")
	path := "/v1/sms-connections/" + id
	to := a.Phone()
	a.Live.Post(path+"/test", app.Map{"to": to}).Refused(403, "forbidden")
	user.Post(path+"/test", app.Map{"to": to}).Refused(409, "conflict") // not confirmed
	user.Do("PATCH", path, app.Map{"compliance_confirmed": true}).Is(200)
	user.Do("PATCH", path, app.Map{"auth_token": "wrong"}).Is(200)
	user.Post(path+"/test", app.Map{"to": to}).Refused(409, "conflict") // pending
	user.Do("PATCH", path, app.Map{"auth_token": smsToken}).Is(200)
	user.Post(path+"/verify", nil).Is(200)
	user.Post(path+"/test", app.Map{"to": "nobody"}).Refused(400, "validation_failed", "body /to invalid_phone")

	keyed := user.IdempotencyKey("first")
	sent := keyed.Post(path+"/test", app.Map{"to": to}).Is(200)
	require.Equal(t, sent.JSON(), keyed.Post(path+"/test", app.Map{"to": to}).Is(200).JSON())
	require.Len(t, provider.MessagesTo(to), 1, "a retry with the same key sends nothing")
	text := provider.MessagesTo(to)[0]
	require.Equal(t, "Acme: this is a test message. Reply STOP to opt out.", text.Body)
	shows(t, sent.JSON(), app.Map{"provider_message_id": text.SID, "status": "queued", "to": to, "sent_at": stamp(0)})
	require.NotEmpty(t, sent.Text("id"))
	require.Empty(t, a.Live.Get("/v1/messages").Is(200).Data(), "nothing is added to the inbox")

	out := a.Phone()
	a.Live.Post("/v1/contacts/"+a.Live.Post("/v1/contacts", app.Map{"phone": out}).Is(201).Text("id")+"/opt-out", app.Map{"source": "phone"}).Is(200)
	user.Post(path+"/test", app.Map{"to": out}).Refused(422, "contact_opted_out")

	provider.Block(to)
	require.Equal(t, "sms_21610", user.Post(path+"/test", app.Map{"to": to}).Refused(409, "conflict").Text("error.details.provider_code"))
	provider.SetMode(twiliotest.Down)
	user.Post(path+"/test", app.Map{"to": a.Phone()}).Refused(503, "service_unavailable") // it counts: the provider was reached
	provider.SetMode(twiliotest.Working)
	for range 2 {
		user.Post(path+"/test", app.Map{"to": a.Phone()}).Is(200)
	}
	refused := user.Post(path+"/test", app.Map{"to": a.Phone()}).Refused(429, "rate_limited")
	require.Equal(t, "60", refused.Header.Get("retry-after"))
	for range 3 {
		a.Advance(time.Minute)
		for range 5 {
			user.Post(path+"/test", app.Map{"to": a.Phone()}).Is(200)
		}
	}
	a.Advance(time.Minute)
	user.Post(path+"/test", app.Map{"to": a.Phone()}).Refused(429, "rate_limited") // the 21st in 24 hours
	a.Advance(24 * time.Hour)
	user = a.As(a.Session(a.Users[organisation.Developer])) // the session before has ended
	user.Post(path+"/test", app.Map{"to": a.Phone()}).Is(200)
}
