package webhook_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/webhook"
	"ledgerline/events"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func given(t *testing.T, list ...events.Event) webhook.Endpoint {
	t.Helper()
	made, err := webhook.Create("whk_1", "https://example.com", "whsec_b25l", []string{"line.degraded", "contact.created"}, false)
	require.NoError(t, err)
	e := webhook.Endpoint{}
	for _, event := range append(made, list...) {
		e = e.Apply(event, events.Envelope{At: noon})
	}
	return e
}

func TestEndpointURLIsHTTPSWithoutCredentials(t *testing.T) {
	t.Parallel()
	for address, code := range map[string]string{
		"https://example.com/a?b=c": "", "https://example.com:8443": "", "https://[2001:db8::1]/": "",
		"https://127.0.0.1": "private_address", "https://10.1.2.3:8443/x": "private_address", "https://[::1]": "private_address", "https://localhost": "private_address",
		"https://169.254.169.254": "private_address", "https://[::ffff:192.168.0.1]/": "private_address", "https://api.LOCALHOST./": "private_address", "https://0.0.0.0/": "private_address",
		"http://example.com": "not_https", "ftp://example.com": "not_https", "example.com": "invalid_url", "https://": "invalid_url", "https:example.com": "invalid_url",
		"https://:80/": "invalid_url", "https://a:b@example.com": "credentials", "https://example.com/" + strings.Repeat("a", 2048): "too_long", "https://exa mple.com": "invalid_url", "": "invalid_url",
	} {
		issues := webhook.CheckURL(address, false)
		if code == "" {
			require.Empty(t, issues, address)
			continue
		}
		require.Len(t, issues, 1, address)
		require.Equal(t, "/url "+code, issues[0].Path+" "+issues[0].Code, address)
	}
	require.Empty(t, webhook.CheckURL("http://localhost:8080", true))
}

func TestEndpointStatusFollowsRuleWHK3(t *testing.T) {
	t.Parallel()
	to := func(s webhook.Status) webhook.Change { return webhook.Change{Status: &s} }
	paused, disabled := &events.WebhookPaused{EndpointID: "whk_1"}, &events.WebhookDisabled{EndpointID: "whk_1", Reason: "failing"}
	enabled := &events.WebhookEnabled{EndpointID: "whk_1"}
	for _, c := range []struct {
		name  string
		given []events.Event
		to    webhook.Status
		at    time.Time
		want  events.Event
		code  fault.Code
	}{
		{"active stays active", nil, webhook.Active, noon, nil, ""},
		{"active is paused", nil, webhook.Paused, noon, paused, ""},
		{"paused stays paused", []events.Event{paused}, webhook.Paused, noon, nil, ""},
		{"paused goes on", []events.Event{paused}, webhook.Active, noon, &events.WebhookResumed{EndpointID: "whk_1"}, ""},
		{"disabled is not paused", []events.Event{disabled}, webhook.Paused, noon, nil, fault.Conflict},
		{"disabled is enabled", []events.Event{disabled}, webhook.Active, noon, enabled, ""},
		{"again too soon", []events.Event{disabled, enabled, disabled}, webhook.Active, noon.Add(10*time.Minute - 1), nil, fault.RateLimited},
		{"again", []events.Event{disabled, enabled, disabled}, webhook.Active, noon.Add(10 * time.Minute), enabled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list, err := given(t, c.given...).Update(to(c.to), c.at, false)
			switch {
			case c.code != "":
				require.True(t, fault.Is(err, c.code), "%v", err)
			case c.want == nil:
				require.NoError(t, err)
				require.Empty(t, list)
			default:
				require.NoError(t, err)
				require.Equal(t, []events.Event{c.want}, list)
			}
		})
	}
}

func TestEndpointUpdateRecordsOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	e := given(t)
	same, other := "https://example.com", "https://example.com/2"
	types := []string{"contact.created", "line.degraded", "contact.created"}
	list, err := e.Update(webhook.Change{URL: &same, Events: &types}, noon, false)
	require.NoError(t, err)
	require.Empty(t, list)
	list, err = e.Update(webhook.Change{URL: &other}, noon, false)
	require.NoError(t, err)
	require.Equal(t, other, e.Apply(list[0], events.Envelope{}).URL)
	require.Equal(t, e.Events, e.Apply(list[0], events.Envelope{}).Events)
	_, err = e.Update(webhook.Change{Events: &[]string{"contact.exploded"}}, noon, false)
	require.True(t, fault.Is(err, fault.ValidationFailed))
}

func TestOnlyAnActiveEndpointIsDisabled(t *testing.T) {
	t.Parallel()
	require.Len(t, given(t).Disable("gone"), 1)
	require.Empty(t, given(t, &events.WebhookPaused{}).Disable("gone"))
	require.Empty(t, given(t, &events.WebhookDisabled{}).Disable("gone"))
}

func TestPreviousSecretSignsFor24HoursAfterARotation(t *testing.T) {
	t.Parallel()
	e := given(t)
	require.Equal(t, []string{"whsec_b25l"}, e.SigningSecrets(noon))
	e = e.Apply(e.Rotate("whsec_dHdv", noon)[0], events.Envelope{})
	require.Equal(t, []string{"whsec_dHdv", "whsec_b25l"}, e.SigningSecrets(noon.Add(24*time.Hour-1)))
	require.Equal(t, []string{"whsec_dHdv"}, e.SigningSecrets(noon.Add(24*time.Hour)))
	e = e.Apply(e.Rotate("whsec_dHJl", noon)[0], events.Envelope{})
	require.Equal(t, []string{"whsec_dHJl", "whsec_dHdv"}, e.SigningSecrets(noon), "never three")
}

func TestReferenceLibraryVerifiesOurSignatures(t *testing.T) {
	t.Parallel()
	at := time.Now()
	secrets := []string{webhook.NewSecret([32]byte{1, 2, 3}), webhook.NewSecret([32]byte{4, 5, 6})}
	body := []byte(`{"a": "ü"}`)
	header, err := webhook.Sign("evt_1", at, body, secrets...)
	require.NoError(t, err)
	headers := http.Header{}
	headers.Set("webhook-id", "evt_1")
	headers.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	headers.Set("webhook-signature", header)
	for _, secret := range secrets {
		wh, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		require.NoError(t, wh.Verify(body, headers))
		require.Error(t, wh.Verify(append(body, ' '), headers))
	}
	stranger, err := standardwebhooks.NewWebhook(webhook.NewSecret([32]byte{7}))
	require.NoError(t, err)
	require.Error(t, stranger.Verify(body, headers))
	_, err = webhook.Sign("evt_1", at, body, "whsec_***")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "***")
}

func TestRetryDelayFollowsTheScheduleAndRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number int
		random float64
		after  time.Duration
		want   time.Duration
	}{
		{1, 0.5, 0, 5 * time.Second},
		{1, 0, 0, 4 * time.Second},
		{1, 1, 0, 6 * time.Second},
		{1, 0.5, time.Second, 5 * time.Second}, // not sooner than planned
		{1, 0.5, 8 * time.Second, 8 * time.Second},
		{1, 0.5, time.Hour, 10 * time.Second},
		{2, 0.5, 0, 5 * time.Minute},
		{9, 0.5, 0, 24 * time.Hour},
		{9, 0.5, 100 * time.Hour, 48 * time.Hour},
	} {
		delay, again := webhook.RetryDelay(c.number, c.random, c.after)
		require.True(t, again)
		require.Equal(t, c.want, delay)
	}
	_, again := webhook.RetryDelay(webhook.MaxAttempts, 0.5, time.Second)
	require.False(t, again)
}

func TestEndpointIsDisabledAfterFiveDaysTenFailuresAndTwoEvents(t *testing.T) {
	t.Parallel()
	one, other := uuid.New(), uuid.New()
	w := webhook.FailureWindow{}
	for i := range 20 {
		w = w.AfterFailure(noon.Add(time.Duration(i)*time.Hour), one)
	}
	require.False(t, w.MustDisable(noon.Add(1000*time.Hour)), "one event only")
	w = w.AfterFailure(noon.Add(20*time.Hour), other)
	require.False(t, w.MustDisable(noon.Add(120*time.Hour-1)))
	require.True(t, w.MustDisable(noon.Add(120*time.Hour)))
	few := webhook.FailureWindow{}
	for i := range 9 {
		few = few.AfterFailure(noon, []uuid.UUID{one, other}[i%2])
	}
	require.False(t, few.MustDisable(noon.Add(1000*time.Hour)), "nine attempts only")
	require.True(t, few.AfterFailure(noon, one).MustDisable(noon.Add(120*time.Hour)))
}

func TestDeliveryIDsAreDerivedFromTheEvent(t *testing.T) {
	t.Parallel()
	event := uuid.Must(uuid.NewV7())
	id := webhook.DeliveryID(event, "whk_1")
	require.Equal(t, id, webhook.DeliveryID(event, "whk_1"))
	require.NotEqual(t, id, webhook.DeliveryID(event, "whk_2"))
	require.EqualValues(t, 7, id.Version())
	require.Equal(t, uuid.RFC4122, id.Variant())
	require.Equal(t, event[:8], id[:8], "as old as the event")
	require.Equal(t, event, webhook.EventID(event, 0))
	require.NotEqual(t, event, webhook.EventID(event, 1))
}
