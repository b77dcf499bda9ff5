// Package smsconnection holds the connection of a workspace to its account at the SMS provider: credentials, sender,
// verification, and when it may send (rules SMS-1 to SMS-13).
package smsconnection

import (
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// Status is the state of a connection (rule SMS-5).
type Status string

// The statuses. The API never shows Deleted.
const (
	Pending  Status = "pending"
	Active   Status = "active"
	Failing  Status = "failing"
	Disabled Status = "disabled"
	Deleted  Status = "deleted"
)

// ClaimScope is the scope of the claims by which a workspace has one connection (rule SMS-1).
const ClaimScope = "sms_connection"

// The limits of rules SMS-2 and SMS-12. maxToken is in characters.
const (
	MaxFromNumbers = 20
	TestsPerMinute = 5
	TestsPerDay    = 20
	maxToken       = 200
)

// The fields that an update names.
const (
	accountSID          = "account_sid"
	authToken           = "auth_token"
	messagingServiceSID = "messaging_service_sid"
	fromNumbers         = "from_numbers"
	prefixOrgName       = "prefix_org_name"
)

// Connection is the state of one connection. The zero value does not exist.
type Connection struct {
	ID                  string
	Organisation        uuid.UUID
	Workspace           uuid.UUID
	AccountSID          string
	AuthToken           string
	MessagingServiceSID string // "" for none
	FromNumbers         []string
	PrefixOrgName       bool
	Status              Status
	Confirmed           bool // a user confirmed compliance
}

// Apply returns the state after one event of the connection's stream.
func (c Connection) Apply(event events.Event, in events.Envelope) Connection {
	switch e := event.(type) {
	case *events.SMSConnectionCreated:
		return Connection{
			ID: e.ConnectionID, Organisation: in.Organisation, Workspace: in.Workspace, AccountSID: e.Credentials.AccountSID,
			AuthToken: e.Credentials.AuthToken, MessagingServiceSID: deref(e.MessagingServiceSID), FromNumbers: e.FromNumbers,
			PrefixOrgName: e.PrefixOrgName, Status: Pending,
		}
	case *events.SMSConnectionUpdated:
		c = c.applyUpdate(e)
	case *events.SMSConnectionVerified:
		c.Status = Active
	case *events.SMSConnectionFailing:
		c.Status = Failing
	case *events.SMSConnectionDisabled:
		c.Status = Disabled
	case *events.SMSConnectionEnabled:
		c.Status = Pending
	case *events.SMSComplianceConfirmed:
		c.Confirmed = true
	case *events.SMSComplianceWithdrawn:
		c.Confirmed = false
	case *events.SMSConnectionDeleted:
		c = Connection{ID: c.ID, Organisation: c.Organisation, Workspace: c.Workspace, Status: Deleted}
	}
	return c
}

func (c Connection) applyUpdate(e *events.SMSConnectionUpdated) Connection {
	for _, field := range e.Changed {
		switch field {
		case accountSID:
			c.AccountSID = e.Credentials.AccountSID
		case authToken:
			c.AuthToken = e.Credentials.AuthToken
		case messagingServiceSID:
			c.MessagingServiceSID = deref(e.MessagingServiceSID)
		case fromNumbers:
			c.FromNumbers = e.FromNumbers
		case prefixOrgName:
			c.PrefixOrgName = e.PrefixOrgName
		}
	}
	if e.Unverified {
		c.Status = Pending
	}
	return c
}

// Exists reports whether the connection was created and not deleted.
func (c Connection) Exists() bool { return c.ID != "" && c.Status != Deleted }

// Ready reports whether the connection may send: it is active, which means verified, and compliance is confirmed (rule
// SMS-6).
func (c Connection) Ready() bool { return c.Status == Active && c.Confirmed }

// SameAccount reports whether two states of a connection have the same credentials and sender, so that a verification
// of one is a verification of the other.
func (c Connection) SameAccount(other *Connection) bool {
	return c.AccountSID == other.AccountSID && c.AuthToken == other.AuthToken &&
		c.MessagingServiceSID == other.MessagingServiceSID && slices.Equal(c.FromNumbers, other.FromNumbers)
}

// Sender returns the number from which a text to a contact is sent (rule SMS-17); "" leaves the choice to the messaging
// service. wroteTo is the number of ours that the contact last wrote to, last the number that last sent to the contact;
// "" for none.
func (c Connection) Sender(contactID, wroteTo, last string) string {
	switch {
	case wroteTo != "" && (c.MessagingServiceSID != "" || slices.Contains(c.FromNumbers, wroteTo)):
		return wroteTo
	case c.MessagingServiceSID != "" || len(c.FromNumbers) == 0:
		return ""
	case slices.Contains(c.FromNumbers, last):
		return last
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(contactID))
	return c.FromNumbers[h.Sum64()%uint64(len(c.FromNumbers))]
}

var (
	accountPattern = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	servicePattern = regexp.MustCompile(`^MG[0-9a-f]{32}$`)
	e164Pattern    = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
)

// Account is what a request states of a connection; nil leaves a field as it is.
type Account struct {
	AccountSID          *string
	AuthToken           *string
	MessagingServiceSID *string // "" removes it
	FromNumbers         *[]string
	PrefixOrgName       *bool
}

// Issues returns what is wrong with the fields that are given (rule SMS-2).
func (a *Account) Issues() []fault.Issue {
	var issues []fault.Issue
	wrong := func(path, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: path, Code: code, Message: text})
	}
	if a.AccountSID != nil && !accountPattern.MatchString(*a.AccountSID) {
		wrong("/account_sid", "invalid_format", "Expected AC and 32 hexadecimal digits.")
	}
	if a.AuthToken != nil {
		if n := len([]rune(*a.AuthToken)); n < 1 || n > maxToken {
			wrong("/auth_token", "invalid_length", "A token has 1 to 200 characters.")
		}
	}
	if a.MessagingServiceSID != nil && *a.MessagingServiceSID != "" && !servicePattern.MatchString(*a.MessagingServiceSID) {
		wrong("/messaging_service_sid", "invalid_format", "Expected MG and 32 hexadecimal digits.")
	}
	if a.FromNumbers != nil {
		issues = append(issues, numberIssues(*a.FromNumbers)...)
	}
	return issues
}

func numberIssues(numbers []string) []fault.Issue {
	var issues []fault.Issue
	if len(numbers) > MaxFromNumbers {
		issues = append(issues, fault.Issue{Location: "body", Path: "/from_numbers", Code: "too_many_items", Message: "Expected at most 20 numbers."})
	}
	for i, number := range numbers {
		path := "/from_numbers/" + strconv.Itoa(i)
		switch {
		case !e164Pattern.MatchString(number):
			issues = append(issues, fault.Issue{Location: "body", Path: path, Code: "invalid_phone", Message: "Expected a phone number in E.164."})
		case slices.Contains(numbers[:i], number):
			issues = append(issues, fault.Issue{Location: "body", Path: path, Code: "duplicate", Message: "The number is listed twice."})
		}
	}
	return issues
}

// Create creates a connection, pending. Bad fields are refused with validation_failed.
func Create(id string, a Account) ([]events.Event, error) {
	if issues := a.Issues(); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	e := &events.SMSConnectionCreated{
		ConnectionID: id, FromNumbers: []string{},
		Credentials: events.SMSCredentials{AccountSID: deref(a.AccountSID), AuthToken: deref(a.AuthToken)},
	}
	if deref(a.MessagingServiceSID) != "" {
		e.MessagingServiceSID = a.MessagingServiceSID
	}
	if a.FromNumbers != nil {
		e.FromNumbers = append(e.FromNumbers, *a.FromNumbers...)
	}
	if a.PrefixOrgName != nil {
		e.PrefixOrgName = *a.PrefixOrgName
	}
	return []events.Event{e}, nil
}

// Change is what a PATCH asks for; nil leaves a property as it is.
type Change struct {
	Account
	Confirmed   *bool
	ConfirmedBy uuid.UUID // with Confirmed true: the user
	Disabled    *bool
}

// Update changes the connection (rules SMS-5 and SMS-7); a value that stays the same causes no event. Bad fields are
// refused with validation_failed.
func (c Connection) Update(change Change) ([]events.Event, error) {
	if issues := change.Issues(); len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	var list []events.Event
	updated := c.updated(&change.Account)
	confirmed := c.Confirmed
	if len(updated.Changed) > 0 {
		list = append(list, updated)
		if confirmed && slices.Contains(updated.Changed, accountSID) { // the confirmation was for the other account
			confirmed = false
			list = append(list, &events.SMSComplianceWithdrawn{ConnectionID: c.ID})
		}
	}
	if change.Confirmed != nil && *change.Confirmed != confirmed {
		list = append(list, c.confirm(*change.Confirmed, change.ConfirmedBy))
	}
	if change.Disabled != nil {
		disabled := c.Status == Disabled && !updated.Unverified
		switch {
		case *change.Disabled && !disabled:
			list = append(list, &events.SMSConnectionDisabled{ConnectionID: c.ID})
		case !*change.Disabled && disabled:
			list = append(list, &events.SMSConnectionEnabled{ConnectionID: c.ID})
		}
	}
	return list, nil
}

func (c Connection) updated(a *Account) *events.SMSConnectionUpdated {
	e := &events.SMSConnectionUpdated{ConnectionID: c.ID}
	if a.AccountSID != nil && *a.AccountSID != c.AccountSID {
		e.Changed, e.Credentials.AccountSID = append(e.Changed, accountSID), *a.AccountSID
	}
	if a.AuthToken != nil && *a.AuthToken != c.AuthToken {
		e.Changed, e.Credentials.AuthToken = append(e.Changed, authToken), *a.AuthToken
	}
	if a.MessagingServiceSID != nil && *a.MessagingServiceSID != c.MessagingServiceSID {
		e.Changed = append(e.Changed, messagingServiceSID)
		if *a.MessagingServiceSID != "" {
			e.MessagingServiceSID = a.MessagingServiceSID
		}
	}
	if a.FromNumbers != nil && !slices.Equal(*a.FromNumbers, c.FromNumbers) {
		e.Changed, e.FromNumbers = append(e.Changed, fromNumbers), *a.FromNumbers
	}
	e.Unverified = len(e.Changed) > 0
	if a.PrefixOrgName != nil && *a.PrefixOrgName != c.PrefixOrgName {
		e.Changed, e.PrefixOrgName = append(e.Changed, prefixOrgName), *a.PrefixOrgName
	}
	return e
}

func (c Connection) confirm(confirmed bool, by uuid.UUID) events.Event {
	if confirmed {
		return &events.SMSComplianceConfirmed{ConnectionID: c.ID, UserID: by}
	}
	return &events.SMSComplianceWithdrawn{ConnectionID: c.ID}
}

// Confirm records that a user confirmed compliance.
func (c Connection) Confirm(by uuid.UUID) []events.Event {
	return []events.Event{c.confirm(true, by)}
}

// RecordVerification records the result of a verification: problem is "" for a success, else what is wrong, in words
// for people. inbound states that the provider now reports inbound messages to the service (rules SMS-3 to SMS-5).
func (c Connection) RecordVerification(problem string, inbound bool) []events.Event {
	if problem != "" {
		return []events.Event{&events.SMSConnectionFailing{ConnectionID: c.ID, Error: problem}}
	}
	list := []events.Event{&events.SMSConnectionVerified{ConnectionID: c.ID}}
	if inbound {
		list = append(list, &events.SMSInboundConfigured{ConnectionID: c.ID})
	}
	return list
}

// Delete deletes the connection.
func (c Connection) Delete() []events.Event {
	return []events.Event{&events.SMSConnectionDeleted{ConnectionID: c.ID}}
}

// LastFour returns the end of a token as the API shows it: at most four characters, and at most half of the token.
func LastFour(token string) string {
	runes := []rune(token)
	return string(runes[len(runes)-min(4, len(runes)/2):])
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
