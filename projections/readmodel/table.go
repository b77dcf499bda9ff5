package readmodel

import (
	"fmt"
	"slices"
	"strings"
)

// Merge says how an update combines a column's new value with the stored one.
type Merge int

const (
	// Replace stores the new value.
	Replace Merge = iota
	// KeepFirst keeps the stored value unless it is null.
	KeepFirst
	// Latest keeps the greater of the two values.
	Latest
)

// Column is one column of a read-model table. Type is the SQL type with its constraints.
type Column struct {
	Name  string
	Type  string
	Merge Merge
}

// Table is one table of a read model.
type Table struct {
	Name    string
	Key     []string // columns of the primary key
	Columns []Column
	// Counters marks a table whose columns outside the key are all counters: an insert adds its values to the stored ones.
	Counters bool
}

// column finds a column by name; nil when the table has none of that name.
func (t *Table) column(name string) *Column {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Columns[i]
}

// check returns an error when a name is not a column of the table.
func (t *Table) check(columns ...string) error {
	for _, name := range columns {
		if t.column(name) == nil {
			return fmt.Errorf("readmodel: table %s has no column %q", t.Name, name)
		}
	}
	return nil
}

func (t *Table) createSQL(schema string) string {
	lines := make([]string, len(t.Columns), len(t.Columns)+1)
	for i, c := range t.Columns {
		lines[i] = c.Name + " " + c.Type
	}
	lines = append(lines, "primary key ("+strings.Join(t.Key, ", ")+")")
	return fmt.Sprintf("create table %s.%s (%s)", schema, t.Name, strings.Join(lines, ", "))
}

// rowKey identifies a row within a batch of changes.
func (t *Table) rowKey(r Row) string {
	if len(t.Key) == 1 {
		return fmt.Sprint(r[t.Key[0]])
	}
	var b strings.Builder
	for _, k := range t.Key {
		fmt.Fprintf(&b, "%v\x00", r[k])
	}
	return b.String()
}

// bareType is the SQL type of a column without its constraints. A comparison with a value of this type can use the
// column's index.
func (t *Table) bareType(column string) string {
	if c := t.column(column); c != nil {
		bare, _, _ := strings.Cut(c.Type, " ")
		return bare
	}
	return "text"
}

// joinSQL joins stored rows t with changed rows u by the primary key.
func (t *Table) joinSQL() string {
	on := make([]string, len(t.Key))
	for i, k := range t.Key {
		on[i] = fmt.Sprintf("t.%s = u.%s", k, k)
	}
	return strings.Join(on, " and ")
}

// assignments is the set clause of an update of the columns in r. Rows with the same assignments share one statement.
func (t *Table) assignments(r Row) string {
	var set []string
	for i := range t.Columns {
		c := &t.Columns[i]
		if v, ok := r[c.Name]; ok && !slices.Contains(t.Key, c.Name) {
			set = append(set, c.assignment(v))
		}
	}
	return strings.Join(set, ", ")
}

func (c *Column) assignment(v any) string {
	if _, counts := v.(Add); counts {
		return fmt.Sprintf("%[1]s = t.%[1]s + u.%[1]s", c.Name)
	}
	switch c.Merge {
	case KeepFirst:
		return fmt.Sprintf("%[1]s = coalesce(t.%[1]s, u.%[1]s)", c.Name)
	case Latest:
		return fmt.Sprintf("%[1]s = greatest(t.%[1]s, u.%[1]s)", c.Name)
	case Replace:
	}
	return fmt.Sprintf("%[1]s = u.%[1]s", c.Name)
}

// merge combines an old and a new value in memory as assignment does in SQL. had says that there is an old value, which
// may be null. Latest compares texts; times are texts of a fixed width (see Stamp), so their order as texts is their
// order in time.
func (c *Column) merge(old any, had bool, v any) any {
	if n, counts := v.(Add); counts && had {
		switch was := old.(type) {
		case Add:
			return was + n
		case int:
			return was + int(n)
		}
	}
	switch {
	case !had || old == nil:
		return v
	case c.Merge == KeepFirst:
		return old
	case c.Merge == Latest && (v == nil || fmt.Sprint(v) < fmt.Sprint(old)):
		return old
	}
	return v
}

// insertSQL inserts rows, given as JSON, and overwrites those that exist: an event that was parked and is retried may
// find its row already inserted.
func (t *Table) insertSQL(name string) string {
	var columns, set []string
	for _, c := range t.Columns {
		columns = append(columns, c.Name)
		if !slices.Contains(t.Key, c.Name) {
			value := "excluded." + c.Name
			if t.Counters {
				value = "t." + c.Name + " + " + value
			}
			set = append(set, c.Name+" = "+value)
		}
	}
	list, conflict := strings.Join(columns, ", "), "nothing"
	if len(set) > 0 {
		conflict = "update set " + strings.Join(set, ", ")
	}
	return fmt.Sprintf("insert into %s as t (%s) select %s from json_populate_recordset(null::%s, $1) on conflict (%s) do %s",
		name, list, list, name, strings.Join(t.Key, ", "), conflict)
}
