package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
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

// where is the clause of all conditions, and of more that hold their arguments' places already.
func (f *filter) where(more ...string) string {
	if len(f.conditions)+len(more) == 0 {
		return ""
	}
	return " where " + strings.Join(slices.Concat(f.conditions, more), " and ")
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

// list reads all rows of a query; what names them in an error.
func list[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("projections: %s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("projections: %s: %w", what, err)
	}
	return found, nil
}

// single reads the only row of a query; found is false when there is none.
func single[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string, args ...any) (row T, found bool, err error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err == nil {
		row, err = pgx.CollectExactlyOneRow(rows, scan)
	}
	var none T
	if errors.Is(err, pgx.ErrNoRows) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("projections: %s: %w", what, err)
	}
	return row, true, nil
}
