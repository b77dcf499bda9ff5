package line

import (
	"net/url"
	"unicode/utf8"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

// The longest texts, in characters (rule LIN-33).
const (
	maxDisplayName = 80
	maxCardName    = 100
	maxCardImage   = 2048
)

// maxReason is the longest reason of a move of state, in characters (rule LIN-4).
const maxReason = 500

func checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > maxReason {
		return fault.Invalid("/reason", "too_long", "A reason has at most %d characters.", maxReason)
	}
	return nil
}

// TextSetting is a text that a request may leave out, set, or empty with "".
type TextSetting struct {
	Given bool
	Value string
}

// PoolSetting is the pool that a request may leave out, set, or remove with nil. A pointer to "" names a pool that
// cannot exist.
type PoolSetting struct {
	Given bool
	Value *string
}

// id returns the pool's id, or "" for no pool.
func (c PoolSetting) id() string {
	if c.Value == nil {
		return ""
	}
	return *c.Value
}

// Change is what a request changes of a line. What is not given stays; the fields of the card merge into the present
// card (rule LIN-33).
type Change struct {
	DisplayName TextSetting
	Pool        PoolSetting
	CardName    *string
	CardImage   *string // an https address
}

// Update changes the line; a value that stays the same causes no event. Bad fields are refused with validation_failed;
// a retired line, and a pool for the sandbox line (rule LIN-6), with conflict. That the pool exists, and the lists of
// the pools, are checked by the caller.
func (l Line) Update(c Change) ([]events.Event, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if l.State == Retired {
		return nil, fault.New(fault.Conflict, "A retired line cannot be changed.")
	}
	e := &events.LineUpdated{LineID: l.ID}
	if c.DisplayName.Given && c.DisplayName.Value != l.DisplayName {
		e.Changed, e.DisplayName = append(e.Changed, "display_name"), textOrNil(c.DisplayName.Value)
	}
	if c.Pool.Given && c.Pool.id() != l.PoolID {
		if l.IsSandbox {
			return nil, fault.New(fault.Conflict, "The sandbox line is in no pool.")
		}
		e.Changed, e.PoolID = append(e.Changed, "pool_id"), c.Pool.Value
	}
	card := l.Card
	if c.CardName != nil {
		card.Name = *c.CardName
	}
	if c.CardImage != nil {
		card.ImageURL = *c.CardImage
	}
	if card != l.Card {
		e.Changed, e.ContactCard = append(e.Changed, "contact_card"), card
	}
	if len(e.Changed) == 0 {
		return nil, nil
	}
	return []events.Event{e}, nil
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (c *Change) check() error {
	var issues []fault.Issue
	wrong := func(pointer, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: text})
	}
	if utf8.RuneCountInString(c.DisplayName.Value) > maxDisplayName {
		wrong("/display_name", "too_long", "The name is too long.")
	}
	if c.CardName != nil && utf8.RuneCountInString(*c.CardName) > maxCardName {
		wrong("/contact_card/name", "too_long", "The name is too long.")
	}
	if c.CardImage != nil && *c.CardImage != "" {
		at, err := url.Parse(*c.CardImage)
		switch {
		case utf8.RuneCountInString(*c.CardImage) > maxCardImage:
			wrong("/contact_card/image_url", "too_long", "The address is too long.")
		case err != nil || at.Scheme != "https" || at.Host == "":
			wrong("/contact_card/image_url", "invalid_format", "This is not an https address.")
		}
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

func (l Line) applyUpdate(e *events.LineUpdated) Line {
	text := func(t *string) string {
		if t == nil {
			return ""
		}
		return *t
	}
	for _, field := range e.Changed {
		switch field {
		case "display_name":
			l.DisplayName = text(e.DisplayName)
		case "pool_id":
			l.PoolID = text(e.PoolID)
		case "contact_card":
			l.Card = e.ContactCard
		}
	}
	return l
}
