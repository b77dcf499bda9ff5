package projections

import (
	"fmt"
	"strings"
)

// filter builds the where clause of a list from the filters that were given. A condition holds one %s for its
// argument's place.
type filter struct {
	conditions []string
	args       []any
}

// add requires a condition about one argument.
func (f *filter) add(condition string, arg any) {
	f.args = append(f.args, arg)
	f.conditions = append(f.conditions, strings.ReplaceAll(condition, "%s", fmt.Sprintf("$%d", len(f.args))))
}

// equal requires column = value unless the value was not given.
func (f *filter) equal(column, value string) {
	if value != "" {
		f.add(column+" = %s", value)
	}
}

func (f *filter) where() string {
	if len(f.conditions) == 0 {
		return ""
	}
	return " where " + strings.Join(f.conditions, " and ")
}

// arg adds an argument that belongs to no condition and gives its place.
func (f *filter) arg(v any) string {
	f.args = append(f.args, v)
	return fmt.Sprintf("$%d", len(f.args))
}

// likeEscaper makes a text mean itself within a pattern.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// contains is the pattern for texts that hold q anywhere.
func contains(q string) string { return "%" + likeEscaper.Replace(q) + "%" }

// Page is a stretch of a list: what follows it is found from After, the sort key of its last row.
type Page[T any] struct {
	Rows []T
	Next *Cursor // nil when there is no more
}

// Cursor is the sort key of a row, newest first by default.
type Cursor struct {
	At string `json:"a"`
	ID string `json:"i"`
}

// page cuts the extra row that tells whether there is more.
func page[T any](rows []T, limit int, key func(*T) Cursor) Page[T] {
	if len(rows) <= limit {
		return Page[T]{Rows: rows}
	}
	rows = rows[:limit]
	next := key(&rows[limit-1])
	return Page[T]{Rows: rows, Next: &next}
}
