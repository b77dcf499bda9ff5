package readmodel

import (
	"time"

	"github.com/google/uuid"
)

// Stamp formats a time for tables and the API: RFC 3339 in UTC with milliseconds. The width is fixed, so that the order
// of texts is the order of the times.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// StampOrNull is Stamp for a time that may be missing.
func StampOrNull(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(Stamp(*t))
}

// EmptyToNull is nil for the empty text.
func EmptyToNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// NilToZero is the zero UUID for nil. Tables store it where an index must order rows without a value too.
func NilToZero(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}

// ZeroToNil is the text of a UUID, and nil for the zero UUID.
func ZeroToNil(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	return new(id.String())
}
