// Package webhook holds webhook endpoints: what they subscribe to, how deliveries are signed and retried, and when an
// endpoint is disabled (rules WHK-1 to WHK-19).
package webhook

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is the state of an endpoint (rule WHK-3).
type Status string

// The statuses. The API never shows Deleted.
const (
	Active   Status = "active"
	Paused   Status = "paused"
	Disabled Status = "disabled"
	Deleted  Status = "deleted"
)

// The reasons for which an endpoint is disabled.
const (
	ReasonFailing = "failing" // rule WHK-12
	ReasonGone    = "gone"    // it answered 410 Gone (rule WHK-10)
)

// The limits of rules WHK-1 to WHK-3, WHK-7, WHK-15 and WHK-16; maxURL is in characters.
const (
	MaxPerWorkspace    = 20
	MaxPerOrganisation = 50
	TestsPerMinute     = 10
	ReplaysPerMinute   = 30
	RangesPerMinute    = 10
	MaxRangeDeliveries = 1000
	MinEnableInterval  = 10 * time.Minute
	RotationOverlap    = 24 * time.Hour
	maxURL             = 2048
)

// Types returns the event types that can be subscribed to (rule WHK-20).
func Types() []string {
	return []string{
		"message.received", "message.status", "contact.created", "contact.opted_out", "contact.opted_in", "conversation.assigned",
		"line.state_changed", "line.degraded", "line.recovered", "workflow.run.completed", "agent.handoff", "workflow.webhook",
	}
}

// Endpoint is the state of one endpoint. The zero value does not exist.
type Endpoint struct {
	ID                  string
	Organisation        uuid.UUID
	Workspace           uuid.UUID
	URL                 string
	Events              []string
	Status              Status
	Secret              string
	PreviousSecret      string    // the secret before the last rotation; "" for none
	PreviousSecretUntil time.Time // until when it signs too (rule WHK-7)
	EnabledAt           time.Time // when it was last enabled again; zero if never
}

// Exists reports whether the endpoint was created and not deleted.
func (e Endpoint) Exists() bool { return e.ID != "" && e.Status != Deleted }

// Apply returns the state after one event of the endpoint's stream.
func (e Endpoint) Apply(event events.Event, in events.Envelope) Endpoint {
	switch v := event.(type) {
	case *events.WebhookCreated:
		return Endpoint{
			ID: v.EndpointID, Organisation: in.Organisation, Workspace: in.Workspace, URL: v.Private.URL, Events: v.Events, Status: Active,
			Secret: v.Private.Secret,
		}
	case *events.WebhookUpdated:
		if v.URLChanged {
			e.URL = v.Private.URL
		}
		if len(v.Events) > 0 {
			e.Events = v.Events
		}
	case *events.WebhookPaused:
		e.Status = Paused
	case *events.WebhookResumed:
		e.Status = Active
	case *events.WebhookDisabled:
		e.Status = Disabled
	case *events.WebhookEnabled:
		e.Status, e.EnabledAt = Active, in.At
	case *events.WebhookSecretRotated:
		e.PreviousSecret, e.PreviousSecretUntil, e.Secret = e.Secret, v.Until, v.Private.Secret
	case *events.WebhookDeleted:
		e = Endpoint{ID: e.ID, Organisation: e.Organisation, Workspace: e.Workspace, Status: Deleted}
	}
	return e
}

// NewSecret makes a secret from randomness: whsec_ and 32 bytes in base64 (rule WHK-7).
func NewSecret(random [32]byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(random[:])
}

const secretPrefix = "whsec_"

// SigningSecrets returns the secrets that sign at a time, the current one first (rule WHK-7).
func (e Endpoint) SigningSecrets(now time.Time) []string {
	if e.PreviousSecret != "" && now.Before(e.PreviousSecretUntil) {
		return []string{e.Secret, e.PreviousSecret}
	}
	return []string{e.Secret}
}

// CheckURL returns what is wrong with an address (rule WHK-2): it must be an absolute https URL without credentials,
// and must not name a private machine. inside allows http and private machines. A name that resolves to a private
// address is refused when it is dialled.
func CheckURL(address string, inside bool) []fault.Issue {
	wrong := func(code, message string) []fault.Issue {
		return []fault.Issue{{Location: "body", Path: "/url", Code: code, Message: message}}
	}
	if utf8.RuneCountInString(address) > maxURL {
		return wrong("too_long", "The address has at most 2048 characters.")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return wrong("invalid_url", "Expected an absolute https:// address.")
	case u.Scheme != "https" && (u.Scheme != "http" || !inside):
		return wrong("not_https", "Expected an https:// address.")
	case u.User != nil:
		return wrong("credentials", "The address may not hold a user name or a password.")
	case !inside && isPrivateHost(u.Hostname()):
		return wrong("private_address", "Expected an address on the public internet.")
	}
	return nil
}

// isPrivateHost reports whether a host is this machine's name, or a loopback, private, link-local or unspecified
// address.
func isPrivateHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
}

// CheckEvents returns what is wrong with a list of event types: it must name at least one, and only those of Types.
func CheckEvents(types []string) []fault.Issue {
	if len(types) == 0 {
		return []fault.Issue{{Location: "body", Path: "/events", Code: "required", Message: "Name at least one event type."}}
	}
	known := Types()
	for _, t := range types {
		if !slices.Contains(known, t) {
			return []fault.Issue{{Location: "body", Path: "/events", Code: "invalid_value", Message: "There is no such event type."}}
		}
	}
	return nil
}

func sorted(types []string) []string { return slices.Compact(slices.Sorted(slices.Values(types))) }

// Create creates an endpoint. A bad address and bad event types are refused together, with validation_failed. inside
// allows http and private addresses.
func Create(id, address, secret string, types []string, inside bool) ([]events.Event, error) {
	if issues := append(CheckURL(address, inside), CheckEvents(types)...); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	return []events.Event{&events.WebhookCreated{
		EndpointID: id, Events: sorted(types), Private: events.WebhookPrivate{URL: address, Secret: secret},
	}}, nil
}

// Change is what a PATCH asks for; nil leaves a property as it is.
type Change struct {
	URL    *string
	Events *[]string
	Status *Status // active or paused
}

// Update changes an endpoint (rule WHK-3); a value that stays the same causes no event. Bad values are refused with
// validation_failed, pausing a disabled endpoint with conflict, and enabling one again within ten minutes with
// rate_limited.
func (e Endpoint) Update(c Change, now time.Time, inside bool) ([]events.Event, error) {
	var issues []fault.Issue
	if c.URL != nil {
		issues = append(issues, CheckURL(*c.URL, inside)...)
	}
	if c.Events != nil {
		issues = append(issues, CheckEvents(*c.Events)...)
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	updated := &events.WebhookUpdated{EndpointID: e.ID}
	if c.URL != nil && *c.URL != e.URL {
		updated.URLChanged, updated.Private.URL = true, *c.URL
	}
	if c.Events != nil {
		if types := sorted(*c.Events); !slices.Equal(types, e.Events) {
			updated.Events = types
		}
	}
	var list []events.Event
	if updated.URLChanged || updated.Events != nil {
		list = append(list, updated)
	}
	if c.Status != nil {
		moves, err := e.setStatus(*c.Status, now)
		if err != nil {
			return nil, err
		}
		list = append(list, moves...)
	}
	return list, nil
}

func (e Endpoint) setStatus(to Status, now time.Time) ([]events.Event, error) {
	switch {
	case e.Status == to:
		return nil, nil
	case to == Paused && e.Status == Disabled:
		return nil, fault.New(fault.Conflict, "The endpoint is disabled. Set it to active first.")
	case to == Paused:
		return []events.Event{&events.WebhookPaused{EndpointID: e.ID}}, nil
	case e.Status == Paused:
		return []events.Event{&events.WebhookResumed{EndpointID: e.ID}}, nil
	}
	if wait := e.EnabledAt.Add(MinEnableInterval).Sub(now); !e.EnabledAt.IsZero() && wait > 0 {
		f := fault.New(fault.RateLimited, "The endpoint was enabled less than ten minutes ago.")
		f.RetryAfter = wait
		return nil, f
	}
	return []events.Event{&events.WebhookEnabled{EndpointID: e.ID}}, nil
}

// Rotate gives the endpoint another secret. The previous one signs too for 24 hours (rule WHK-7).
func (e Endpoint) Rotate(secret string, now time.Time) []events.Event {
	return []events.Event{&events.WebhookSecretRotated{
		EndpointID: e.ID, Until: now.Add(RotationOverlap), Private: events.WebhookPrivate{Secret: secret},
	}}
}

// Disable disables an active endpoint; any other returns no event.
func (e Endpoint) Disable(reason string) []events.Event {
	if e.Status != Active {
		return nil
	}
	return []events.Event{&events.WebhookDisabled{EndpointID: e.ID, Reason: reason}}
}

// Delete deletes the endpoint (rule WHK-5).
func (e Endpoint) Delete() []events.Event {
	return []events.Event{&events.WebhookDeleted{EndpointID: e.ID}}
}
