package contact

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/events"
)

const (
	// MaxFields is the largest size of one contact's custom fields, in bytes of JSON (rule CON-3). It is bounded because
	// every list of contacts includes the custom fields.
	MaxFields = 32 << 10
	// MaxLabels is how many labels one contact has at most (rule CON-3).
	MaxLabels = 200
)

// The names of a contact's fields in the event contact.updated.
const (
	FieldPhone     = "phone"
	FieldFirstName = "first_name"
	FieldLastName  = "last_name"
	FieldCompany   = "company"
	FieldEmail     = "email"
	FieldFields    = "fields"
	FieldOwner     = "owner_user_id"
)

// Setting is a property of a request that may be left out, emptied, or given a value.
type Setting[T any] struct {
	Given bool // false: the request leaves the property as it is
	Value *T   // nil: the request empties the property
}

// Set returns a setting that is given; nil empties the property.
func Set[T any](value *T) Setting[T] { return Setting[T]{true, value} }

// Patch holds the changes that a request makes to a contact. The zero value changes nothing.
type Patch struct {
	Phone      string // E.164; "" leaves it as it is
	NumberHash string // keyed hash of Phone
	FirstName  Setting[string]
	LastName   Setting[string]
	Company    Setting[string]
	Email      Setting[string]
	Owner      Setting[uuid.UUID]
	// Fields replaces the custom fields (rule CON-4); nil leaves them as they are.
	Fields map[string]any
}

// CheckFields refuses custom fields over MaxFields with validation_failed at pointer.
func CheckFields(fields map[string]any, pointer string) error {
	text, err := json.Marshal(fields)
	switch {
	case err != nil:
		return fault.Invalid(pointer, "invalid_value", "Custom fields are JSON.")
	case len(text) > MaxFields:
		return fault.Invalid(pointer, "too_long", "Custom fields have at most %d bytes as JSON.", MaxFields)
	}
	return nil
}

// Update returns one event with the properties that the patch gives and that differ from the contact's; no event if
// none differs. If the number changes, the caller links the new number and unlinks the old one in the same append
// (number.Number).
func (c Contact) Update(p Patch) []events.Event {
	e := &events.ContactUpdated{ContactID: c.ID}
	if p.Phone != "" && p.Phone != c.Phone {
		e.Changed = append(e.Changed, FieldPhone)
		e.Person.Phone, e.NumberHash = p.Phone, p.NumberHash
	}
	for _, text := range []struct {
		name    string
		current *string
		given   Setting[string]
		into    **string
	}{
		{FieldFirstName, c.FirstName, p.FirstName, &e.Person.FirstName},
		{FieldLastName, c.LastName, p.LastName, &e.Person.LastName},
		{FieldCompany, c.Company, p.Company, &e.Person.Company},
		{FieldEmail, c.Email, p.Email, &e.Person.Email},
	} {
		if text.given.Given && !same(text.current, text.given.Value) {
			e.Changed = append(e.Changed, text.name)
			*text.into = text.given.Value
		}
	}
	if p.Fields != nil && !sameJSON(c.Fields, p.Fields) {
		e.Changed = append(e.Changed, FieldFields)
		e.Person.Fields = p.Fields
	}
	if p.Owner.Given && !same(c.Owner, p.Owner.Value) {
		e.Changed = append(e.Changed, FieldOwner)
		e.OwnerUserID = p.Owner.Value
	}
	if len(e.Changed) == 0 {
		return nil
	}
	return []events.Event{e}
}

func (c Contact) applyUpdate(e *events.ContactUpdated) Contact {
	for _, name := range e.Changed {
		switch name {
		case FieldPhone:
			c.Phone, c.NumberHash = e.Person.Phone, e.NumberHash
		case FieldFirstName:
			c.FirstName = e.Person.FirstName
		case FieldLastName:
			c.LastName = e.Person.LastName
		case FieldCompany:
			c.Company = e.Person.Company
		case FieldEmail:
			c.Email = e.Person.Email
		case FieldFields:
			c.Fields = e.Person.Fields
		case FieldOwner:
			c.Owner = e.OwnerUserID
		}
	}
	return c
}

// FollowRegister opts the contact out because the register of opt-outs contains its number: another contact with the
// number opted out (rule CON-13), or the contact got the number (rule CON-6). The event has no evidence, since that
// belongs to another contact. A contact that is opted out already, and one that does not exist, return no event.
func (c Contact) FollowRegister() []events.Event {
	if !c.Exists() || c.Consent == consent.OptedOut {
		return nil
	}
	return []events.Event{consent.NewEvent(c.ID, c.NumberHash, c.Phone, c.Consent, consent.OptedOut, consent.Evidence{}, true)}
}

// ChangeLabels adds and removes labels; a label in both lists is added. It returns no event if nothing changes. More
// than MaxLabels labels are refused with validation_failed at pointer (rule CON-3).
func (c Contact) ChangeLabels(add, remove []uuid.UUID, pointer string) ([]events.Event, error) {
	e := &events.ContactLabelsChanged{ContactID: c.ID}
	for _, id := range add {
		if !slices.Contains(c.LabelIDs, id) && !slices.Contains(e.Added, id) {
			e.Added = append(e.Added, id)
		}
	}
	for _, id := range remove {
		if slices.Contains(c.LabelIDs, id) && !slices.Contains(add, id) && !slices.Contains(e.Removed, id) {
			e.Removed = append(e.Removed, id)
		}
	}
	if len(e.Added) > 0 && len(c.LabelIDs)+len(e.Added)-len(e.Removed) > MaxLabels {
		return nil, fault.Invalid(pointer, "too_many_items", "A contact has at most %d labels.", MaxLabels)
	}
	if len(e.Added)+len(e.Removed) == 0 {
		return nil, nil
	}
	return []events.Event{e}, nil
}

func applyLabels(has, added, removed []uuid.UUID) []uuid.UUID {
	kept := slices.DeleteFunc(slices.Clone(has), func(id uuid.UUID) bool { return slices.Contains(removed, id) })
	return append(kept, added...)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sameJSON reports whether two objects are equal as JSON. nil equals the empty object.
func sameJSON(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}
	right, err := json.Marshal(b)
	return err == nil && (len(a) == 0 || bytes.Equal(left, right))
}
