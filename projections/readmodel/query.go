package readmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// StatementTimeout is the statement that bounds the other statements of its transaction, in place of the bound that the
// connections of requests have.
func StatementTimeout(d time.Duration) string {
	return fmt.Sprintf("set local statement_timeout = %d", d.Milliseconds())
}

// Filter builds the where clause of a query from the conditions that apply. The zero value has none.
type Filter struct {
	Conditions []string
	Args       []any
}

// Add requires a condition with one argument; %s in it stands for the argument's placeholder.
func (f *Filter) Add(condition string, arg any) {
	f.Conditions = append(f.Conditions, strings.ReplaceAll(condition, "%s", f.Arg(arg)))
}

// Require adds a condition whose arguments, if any, have their placeholders already.
func (f *Filter) Require(condition string) { f.Conditions = append(f.Conditions, condition) }

// Equal requires column = value. It does nothing when the value is empty.
func (f *Filter) Equal(column, value string) {
	if value != "" {
		f.Add(column+" = %s", value)
	}
}

// After requires that a row comes after the cursor in a list by time and id, both descending. It does nothing on the
// first page, when the cursor is nil. idType is the SQL type of the id.
func (f *Filter) After(cursor *Cursor, at, id, idType string) {
	if cursor != nil {
		f.Add("("+at+", "+id+") < (%s::timestamptz, "+f.Arg(cursor.ID)+"::text::"+idType+")", cursor.At)
	}
}

// Where is the where clause of all conditions, and of more conditions that have their placeholders already.
func (f *Filter) Where(more ...string) string {
	if len(f.Conditions)+len(more) == 0 {
		return ""
	}
	return " where " + strings.Join(slices.Concat(f.Conditions, more), " and ")
}

// Arg adds an argument and returns its placeholder.
func (f *Filter) Arg(v any) string {
	f.Args = append(f.Args, v)
	return fmt.Sprintf("$%d", len(f.Args))
}

// likeEscaper escapes a text for a like pattern, so that the pattern matches that text only.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Containing is the like pattern of the texts that contain q.
func Containing(q string) string { return "%" + likeEscaper.Replace(q) + "%" }

// StartingWith is the like pattern of the texts that start with q.
func StartingWith(q string) string { return likeEscaper.Replace(q) + "%" }

// Page is one page of a list.
type Page[T any] struct {
	Rows []T
	Next *Cursor // nil on the last page
}

// Cursor is the sort key of a page's last row. The next page begins after that row.
type Cursor struct {
	At string `json:"a"`
	ID string `json:"i"`
}

// PageOf cuts a page from rows that were read with limit + 1: an additional row shows that there is a next page.
func PageOf[T any](rows []T, limit int, key func(*T) Cursor) Page[T] {
	if len(rows) <= limit {
		return Page[T]{Rows: rows}
	}
	rows = rows[:limit]
	return Page[T]{Rows: rows, Next: new(key(&rows[limit-1]))}
}

// PageBytes is the size of the rows, in bytes of the database, at which a page ends before its limit (rule API-21).
const PageBytes = 1 << 20

// ReadPage reads one page of a query that selects limit + 1 rows. The page ends early with the row that takes it over
// PageBytes. key returns the sort key of a row; the name identifies the query in errors.
func ReadPage[T any](
	ctx context.Context, r *Reader, name string, limit int, scan pgx.RowToFunc[T], key func(*T) Cursor, sql string, args ...any,
) (Page[T], error) {
	rows, err := r.DB(ctx).Query(ctx, sql, args...)
	if err != nil {
		return Page[T]{}, fmt.Errorf("projections: %s: %w", name, err)
	}
	defer rows.Close()
	page, size := Page[T]{}, 0
	for rows.Next() {
		if len(page.Rows) == limit || size >= PageBytes {
			page.Next = new(key(&page.Rows[len(page.Rows)-1]))
			break
		}
		for _, value := range rows.RawValues() {
			size += len(value)
		}
		row, err := scan(rows)
		if err != nil {
			return Page[T]{}, fmt.Errorf("projections: %s: %w", name, err)
		}
		page.Rows = append(page.Rows, row)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return Page[T]{}, fmt.Errorf("projections: %s: %w", name, err)
	}
	return page, nil
}

// List reads all rows of a query. The name identifies the query in errors.
func List[T any](ctx context.Context, r *Reader, name string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := r.DB(ctx).Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("projections: %s: %w", name, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("projections: %s: %w", name, err)
	}
	return found, nil
}

// One reads the only row of a query; found is false when there is none.
func One[T any](ctx context.Context, r *Reader, name string, scan pgx.RowToFunc[T], sql string, args ...any) (row T, found bool, err error) {
	rows, err := r.DB(ctx).Query(ctx, sql, args...)
	if err == nil {
		row, err = pgx.CollectExactlyOneRow(rows, scan)
	}
	var none T
	if errors.Is(err, pgx.ErrNoRows) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("projections: %s: %w", name, err)
	}
	return row, true, nil
}
