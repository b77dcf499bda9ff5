// Package segment is the language of segments: definitions that select contacts of a workspace (rules CON-32 to
// CON-38). A definition is parsed once. Matches evaluates it for a contact in memory; package projections turns it
// into SQL. Both give the same result.
package segment

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Field is what a leaf compares.
type Field string

// The fields (rule CON-34). Custom is any custom field; Leaf.Key names it.
const (
	Phone          Field = "phone"
	FirstName      Field = "first_name"
	LastName       Field = "last_name"
	Company        Field = "company"
	Email          Field = "email"
	ConsentStatus  Field = "consent_status"
	Labels         Field = "labels"
	OwnerUserID    Field = "owner_user_id"
	AssignedLineID Field = "assigned_line_id"
	CreatedAt      Field = "created_at"
	LastInboundAt  Field = "last_inbound_at"
	LastOutboundAt Field = "last_outbound_at"
	FirstReplyAt   Field = "first_reply_at"
	ChatCapable    Field = "chat_capable"
	Custom         Field = "fields."
	// MessageBody is the text of a message. Only conditions of workflows have it, see ParseCondition.
	MessageBody Field = "message.body"
)

// Op is how a leaf compares.
type Op string

// The operations (rules CON-34 to CON-37). NotContains and Ne are false, too, for a missing field.
const (
	Eq          Op = "eq"
	Ne          Op = "ne"
	Contains    Op = "contains"
	NotContains Op = "not_contains"
	StartsWith  Op = "starts_with"
	In          Op = "in"
	Exists      Op = "exists"
	Gt          Op = "gt"
	Lt          Op = "lt"
	Before      Op = "before"
	After       Op = "after"
	WithinDays  Op = "within_days" // at most so many times 24 hours before now
)

// Node is one node of a definition. Exactly one of its fields is set.
type Node struct {
	All  []Node
	Any  []Node
	Not  *Node
	Leaf *Leaf
}

// Leaf is one condition. Values has one value, or several with In. Their types depend on the field: a text is folded
// (see Fold), a label is its id, a time is a time.Time, a flag a bool, and the days of WithinDays an int. The value
// of a custom field is a folded text, a float64 or a bool.
type Leaf struct {
	Field  Field
	Key    string // of a custom field
	Op     Op
	Values []any
	Wanted bool   // the value of Exists
	names  []name // labels by name, until BindLabels
}

// name is a label as the definition names it, with the JSON pointer of the value.
type name struct{ text, pointer string }

// Contact is what a definition is evaluated for. Nil means missing.
type Contact struct {
	Phone                                                string
	FirstName, LastName, Company, Email                  *string
	ConsentStatus                                        string
	LabelIDs                                             []uuid.UUID // of labels that exist
	OwnerUserID                                          *uuid.UUID
	AssignedLineID                                       *string
	CreatedAt, LastInboundAt, LastOutboundAt, FirstReply *time.Time
	ChatCapable                                          *bool
	Fields                                               map[string]any // as JSON decodes it
	MessageBody                                          *string        // of the message that a workflow's condition is about
}

// Fold returns a text as it is compared: in lower case.
func Fold(text string) string { return strings.ToLower(text) }

// FoldFields folds the texts of custom fields and of lists in them. Deeper values are never compared and stay as they
// are.
func FoldFields(fields map[string]any) map[string]any {
	folded := make(map[string]any, len(fields))
	for key, value := range fields {
		switch v := value.(type) {
		case string:
			folded[key] = Fold(v)
		case []any:
			list := make([]any, len(v))
			for i, element := range v {
				if text, ok := element.(string); ok {
					element = Fold(text)
				}
				list[i] = element
			}
			folded[key] = list
		default:
			folded[key] = value
		}
	}
	return folded
}

// Instant reads a time from a custom field: RFC 3339, or a date, which means its first moment in UTC. Times are cut
// to milliseconds.
func Instant(value any) (time.Time, bool) {
	text, ok := value.(string)
	if !ok {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			return t.UTC().Truncate(time.Millisecond), true
		}
	}
	return time.Time{}, false
}

// Day is the unit of WithinDays (rule CON-36).
const Day = 24 * time.Hour

// Matches reports whether the definition selects the contact at a time.
func (n *Node) Matches(c *Contact, now time.Time) bool {
	switch {
	case n.All != nil:
		for i := range n.All {
			if !n.All[i].Matches(c, now) {
				return false
			}
		}
		return true
	case n.Any != nil:
		return slices.ContainsFunc(n.Any, func(child Node) bool { return child.Matches(c, now) })
	case n.Not != nil:
		return !n.Not.Matches(c, now)
	}
	return n.Leaf.matches(c, now)
}

func (l *Leaf) matches(c *Contact, now time.Time) bool {
	switch l.Field {
	case Phone:
		return l.text(&c.Phone)
	case FirstName:
		return l.text(c.FirstName)
	case LastName:
		return l.text(c.LastName)
	case Company:
		return l.text(c.Company)
	case Email:
		return l.text(c.Email)
	case ConsentStatus:
		return l.text(&c.ConsentStatus)
	case AssignedLineID:
		return l.text(c.AssignedLineID)
	case OwnerUserID:
		if c.OwnerUserID == nil {
			return l.text(nil)
		}
		owner := c.OwnerUserID.String()
		return l.text(&owner)
	case Labels:
		return l.labels(c.LabelIDs)
	case CreatedAt:
		return l.time(c.CreatedAt, now)
	case LastInboundAt:
		return l.time(c.LastInboundAt, now)
	case LastOutboundAt:
		return l.time(c.LastOutboundAt, now)
	case FirstReplyAt:
		return l.time(c.FirstReply, now)
	case ChatCapable:
		return l.flag(c.ChatCapable)
	case MessageBody:
		return l.text(c.MessageBody)
	case Custom:
		return l.custom(c.Fields[l.Key], now)
	}
	return false
}

func (l *Leaf) text(has *string) bool {
	if l.Op == Exists || has == nil {
		return l.Op == Exists && (has != nil) == l.Wanted
	}
	text := Fold(*has)
	equals := func(value any) bool { return value == text }
	switch l.Op { //nolint:exhaustive // Parse lets no other through
	case Eq, In:
		return slices.ContainsFunc(l.Values, equals)
	case Ne:
		return !equals(l.Values[0])
	case Contains:
		return strings.Contains(text, l.Text())
	case NotContains:
		return !strings.Contains(text, l.Text())
	case StartsWith:
		return strings.HasPrefix(text, l.Text())
	}
	return false
}

// Text returns the value of a leaf that compares with one text; "" if the value is not a text.
func (l *Leaf) Text() string {
	text, _ := l.Values[0].(string)
	return text
}

func (l *Leaf) labels(has []uuid.UUID) bool {
	if l.Op == Exists || len(has) == 0 {
		return l.Op == Exists && (len(has) > 0) == l.Wanted
	}
	found := slices.ContainsFunc(l.Values, func(value any) bool {
		id, ok := value.(uuid.UUID)
		return ok && slices.Contains(has, id)
	})
	return found != (l.Op == NotContains)
}

func (l *Leaf) time(has *time.Time, now time.Time) bool {
	if l.Op == Exists || has == nil {
		return l.Op == Exists && (has != nil) == l.Wanted
	}
	from, to := l.TimeRange(now)
	return !has.Before(from) && has.Before(to)
}

// The earliest and latest time of a range without a bound.
var (
	first = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TimeRange returns the range of times that Before, After and WithinDays select: from included, to excluded.
func (l *Leaf) TimeRange(now time.Time) (from, to time.Time) {
	now = now.UTC().Truncate(time.Millisecond)
	switch value := l.Values[0].(type) {
	case time.Time:
		if l.Op == Before {
			return first, value
		}
		return value.Add(time.Millisecond), last
	case int:
		return now.Add(-time.Duration(value) * Day), now.Add(time.Millisecond)
	}
	return last, last
}

func (l *Leaf) flag(has *bool) bool {
	if l.Op == Exists || has == nil {
		return l.Op == Exists && (has != nil) == l.Wanted
	}
	return (*has == l.Values[0]) == (l.Op == Eq)
}

func (l *Leaf) custom(has any, now time.Time) bool {
	if l.Op == Exists || has == nil {
		return l.Op == Exists && (has != nil) == l.Wanted
	}
	switch l.Op { //nolint:exhaustive // the others compare texts
	case Before, After, WithinDays:
		at, ok := Instant(has)
		return ok && l.time(&at, now)
	case Gt, Lt:
		number, ok := has.(float64)
		bound, _ := l.Values[0].(float64)
		return ok && (l.Op == Gt && number > bound || l.Op == Lt && number < bound)
	case Contains:
		return l.contains(has)
	case NotContains:
		return !l.contains(has)
	}
	if text, ok := has.(string); ok {
		return l.text(&text)
	}
	equals := func(value any) bool { return scalar(has) && value == has }
	switch l.Op { //nolint:exhaustive // a number or a boolean
	case Eq, In:
		return slices.ContainsFunc(l.Values, equals)
	case Ne:
		return !equals(l.Values[0])
	}
	return false
}

// scalar reports whether a value can be compared; lists and objects equal nothing.
func scalar(value any) bool {
	switch value.(type) {
	case string, float64, bool:
		return true
	}
	return false
}

// contains reports whether a text contains the value as a part, or a list as an element.
func (l *Leaf) contains(has any) bool {
	switch v := has.(type) {
	case string:
		part, ok := l.Values[0].(string)
		return ok && strings.Contains(Fold(v), part)
	case []any:
		return slices.ContainsFunc(v, func(element any) bool {
			if text, ok := element.(string); ok {
				element = Fold(text)
			}
			return scalar(element) && element == l.Values[0]
		})
	}
	return false
}
