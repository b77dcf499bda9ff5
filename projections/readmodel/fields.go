package readmodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The struct that the API shows is the only definition of a resource's fields. The JSON answer, the columns of the SQL
// table and the scan are all derived from it:
//
//	type Contact struct {
//		ID        string   `json:"id" sql:"text not null"`
//		FirstName *string  `json:"first_name" sql:"text"`
//		ReplyAt   *string  `json:"reply_at" format:"date-time" sql:"timestamptz" merge:"first"`
//		Labels    []string `json:"labels"` // no column: Select gets an expression
//	}
//
// sql is the type of the column with its constraints. The column's name is the JSON name, or the tag column where the
// two differ. A field with the tags column and json:"-" is read from the table but is not part of the JSON. merge is
// "first" or "latest", see Merge. Times are texts with format:"date-time". UUIDs are texts in a column of type uuid.

// TableOf makes a table from the fields of T that have the tag sql, and hidden columns, which the API does not show. It
// panics on a mistake in the tags.
func TableOf[T any](name string, key []string, hidden ...Column) *Table {
	t := &Table{Name: name, Key: key}
	eachField(reflect.TypeFor[T](), "", nil, func(path string, f reflect.StructField) bool {
		kind, ok := f.Tag.Lookup("sql")
		if ok {
			t.Columns = append(t.Columns, Column{Name: columnName(path, f), Type: kind, Merge: mergeOf(f)})
		}
		return !ok
	})
	t.Columns = append(t.Columns, hidden...)
	for i, c := range t.Columns {
		if slices.ContainsFunc(t.Columns[:i], func(other Column) bool { return other.Name == c.Name }) {
			panic(fmt.Sprintf("readmodel: table %s has column %q twice", name, c.Name))
		}
	}
	if err := t.check(key...); err != nil {
		panic(err)
	}
	return t
}

// Tagged lists the columns of T's fields that have a tag, in the order of the struct.
func Tagged[T any](tag string) (columns []string) {
	eachField(reflect.TypeFor[T](), "", nil, func(path string, f reflect.StructField) bool {
		if _, ok := f.Tag.Lookup(tag); ok {
			columns = append(columns, columnName(path, f))
		}
		return false
	})
	return columns
}

func mergeOf(f reflect.StructField) Merge {
	switch merge := f.Tag.Get("merge"); merge {
	case "":
		return Replace
	case "first":
		return KeepFirst
	case "latest":
		return Latest
	default:
		panic(fmt.Sprintf("readmodel: field %s has the unknown merge %q", f.Name, merge))
	}
}

// columnName is the column of a field: its tag column, else its JSON name.
func columnName(path string, f reflect.StructField) string {
	if column := f.Tag.Get("column"); column != "" {
		return column
	}
	return path
}

// eachField calls visit for each field with a JSON name or a tag column. The fields of embedded structs count as fields
// of the struct itself; those of other structs follow under "name." when visit returns true.
func eachField(t reflect.Type, prefix string, index []int, visit func(path string, f reflect.StructField) bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(index), i)
		if f.Anonymous {
			eachField(f.Type, prefix, f.Index, visit)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			name = f.Tag.Get("column")
		}
		if name == "" || !f.IsExported() {
			continue
		}
		if visit(prefix+name, f) && f.Type.Kind() == reflect.Struct {
			eachField(f.Type, prefix+name+".", f.Index, visit)
		}
	}
}

// Selection reads values of T: SQL is the list of what to select, Scan reads a row of it.
type Selection[T any] struct {
	SQL    string
	fields []selected
}

type selected struct {
	path   string // JSON name, with the names of the structs around it
	column string // "" when an expression gives the value
	index  []int
	time   bool
}

// SetAfterScan as an expression in Select marks a field that is not selected: code sets it after the scan.
const SetAfterScan = ""

// Select derives a selection from a table that the query calls alias. expressions gives SQL for fields that have no
// column in the table, by JSON name; fields of a struct within T are "name.field". A field without a column and without
// an expression is a mistake in the program, as is an expression without a field: Select panics.
func Select[T any](t *Table, alias string, expressions map[string]string) *Selection[T] {
	s := &Selection[T]{}
	var list []string
	used := map[string]bool{}
	eachField(reflect.TypeFor[T](), "", nil, func(path string, f reflect.StructField) bool {
		field := selected{path: path, index: f.Index, time: f.Tag.Get("format") == "date-time"}
		expression, given := expressions[path]
		column := t.column(columnName(path, f))
		switch {
		case given:
			used[path] = true
			if expression == SetAfterScan {
				return false
			}
		case column != nil:
			expression, field.column = alias+"."+column.Name, column.Name
			if t.bareType(column.Name) == "uuid" && f.Type.Kind() != reflect.Array {
				expression += "::text"
			}
		case f.Type.Kind() == reflect.Struct:
			return true
		default:
			panic(fmt.Sprintf("readmodel: %s.%s is no column of table %s and has no expression", reflect.TypeFor[T](), path, t.Name))
		}
		list, s.fields = append(list, expression), append(s.fields, field)
		return false
	})
	for path := range expressions {
		if !used[path] {
			panic(fmt.Sprintf("readmodel: %s has no field %q", reflect.TypeFor[T](), path))
		}
	}
	s.SQL = strings.Join(list, ", ")
	return s
}

// Scan reads a row of the selection.
func (s *Selection[T]) Scan(row pgx.CollectableRow) (T, error) {
	var v T
	err := row.Scan(s.Into(&v)...)
	return v, err
}

// Into returns scan targets in v for the columns of the selection. It is for a query that selects other columns as
// well.
func (s *Selection[T]) Into(v *T) []any {
	into := make([]any, len(s.fields))
	root := reflect.ValueOf(v).Elem()
	for i := range s.fields {
		field := &s.fields[i]
		target := root.FieldByIndex(field.index).Addr().Interface()
		if field.time {
			target = stampInto{target}
		}
		into[i] = target
	}
	return into
}

// FromRow returns the value that Scan would read from the row r of the table. Only fields that have columns are set.
func (s *Selection[T]) FromRow(r Row) (T, error) {
	var v T
	shown := map[string]any{}
	for i := range s.fields {
		if column := s.fields[i].column; column != "" {
			shown[s.fields[i].path] = r[column]
		}
	}
	text, err := json.Marshal(shown)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return v, fmt.Errorf("readmodel: %T of a row: %w", v, err)
	}
	return v, nil
}

// stampInto scans a time into a *string, or a **string when it may be null, as Stamp formats it.
type stampInto struct{ target any }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (s stampInto) ScanTimestamptz(v pgtype.Timestamptz) error {
	var at *time.Time
	if v.Valid {
		at = &v.Time
	}
	switch target := s.target.(type) {
	case **string:
		*target = StampOrNull(at)
	case *string:
		if at == nil {
			return fmt.Errorf("readmodel: a time is null")
		}
		*target = Stamp(*at)
	default:
		return fmt.Errorf("readmodel: cannot scan a time into %T", s.target)
	}
	return nil
}

// ValuesOf lists the fields of a struct by JSON name, for rows that store an event's fields under the same names.
func ValuesOf(v any) Row {
	values := Row{}
	root := reflect.Indirect(reflect.ValueOf(v))
	eachField(root.Type(), "", nil, func(path string, f reflect.StructField) bool {
		values[path] = root.FieldByIndex(f.Index).Interface()
		return false
	})
	return values
}

// ChangedValues is the part of ValuesOf(event) that an update of the table needs: the fields whose names are in changed
// and are columns of the table.
func (t *Table) ChangedValues(event any, changed []string) Row {
	values := ValuesOf(event)
	maps.DeleteFunc(values, func(name string, _ any) bool {
		return !slices.Contains(changed, name) || t.column(name) == nil
	})
	return values
}
