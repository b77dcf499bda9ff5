package projections

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Merge says what an update of a column makes of the value that is there.
type Merge int

const (
	// Replace takes the new value.
	Replace Merge = iota
	// KeepFirst keeps what is there, unless it is null.
	KeepFirst
	// Latest takes the greater of the two.
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
	Key     []string // primary key
	Columns []Column
	// Counters marks a table whose columns beside the key are all counters: what is inserted is added to what is there.
	Counters bool
}

func (t *Table) create(schema string) string {
	var lines []string
	for _, c := range t.Columns {
		lines = append(lines, c.Name+" "+c.Type)
	}
	lines = append(lines, "primary key ("+strings.Join(t.Key, ", ")+")")
	return fmt.Sprintf("create table %s.%s (%s)", schema, t.Name, strings.Join(lines, ", "))
}

// Row holds the columns of a table that an event sets; nil is null.
type Row map[string]any

// Add as the value of a column in an update counts it up in place of setting it. Only not null numbers can be counted.
type Add int

// Changes gathers what a batch of events does to the tables of a read model and writes the net effect set-based: a
// row that is made and changed ten times within a batch is one insert. That is what makes a replay fast.
type Changes struct {
	tables map[*Table]*tableChanges
	order  []*Table
	after  map[string]map[string]bool // statements that follow, and the values that they are about
}

type tableChanges struct {
	rows    map[string]*rowChange
	order   []string
	deleted map[string]Row      // by key
	cleared map[string][]string // column -> values whose rows go
	blanked map[blank][]string  // what is emptied -> values whose rows are meant
}

// blank names columns that are emptied in the rows found by another column.
type blank struct{ by, set string }

type rowChange struct {
	insert bool
	set    Row
}

// NewChanges starts empty. What it gathers is written in the order of the tables.
func NewChanges(tables ...*Table) *Changes {
	c := &Changes{tables: map[*Table]*tableChanges{}, after: map[string]map[string]bool{}}
	for _, t := range tables {
		c.of(t)
	}
	return c
}

func (c *Changes) of(t *Table) *tableChanges {
	tc := c.tables[t]
	if tc == nil {
		tc = &tableChanges{rows: map[string]*rowChange{}, deleted: map[string]Row{}, cleared: map[string][]string{}, blanked: map[blank][]string{}}
		c.tables[t] = tc
		c.order = append(c.order, t)
	}
	return tc
}

func (t *Table) key(r Row) string {
	if len(t.Key) == 1 {
		return fmt.Sprint(r[t.Key[0]])
	}
	var b strings.Builder
	for _, k := range t.Key {
		fmt.Fprintf(&b, "%v\x00", r[k])
	}
	return b.String()
}

// Insert makes a row; every column that is not null by nature must be set.
func (c *Changes) Insert(t *Table, r Row) {
	tc, k := c.of(t), t.key(r)
	known := tc.rows[k]
	if known == nil {
		tc.order = append(tc.order, k)
	} else if t.Counters {
		for i := range t.Columns {
			col := &t.Columns[i]
			if n, ok := r[col.Name].(Add); ok {
				known.set[col.Name] = col.merge(known.set[col.Name], true, n)
			}
		}
		return
	}
	tc.rows[k] = &rowChange{insert: true, set: r}
}

// Update sets columns of the row with the key that r holds. A row that does not exist stays so.
func (c *Changes) Update(t *Table, r Row) {
	tc, k := c.of(t), t.key(r)
	known := tc.rows[k]
	if known == nil {
		if _, gone := tc.deleted[k]; gone {
			return
		}
		tc.rows[k] = &rowChange{set: r}
		tc.order = append(tc.order, k)
		return
	}
	for _, col := range t.Columns {
		if v, ok := r[col.Name]; ok {
			old, had := known.set[col.Name]
			known.set[col.Name] = col.merge(old, had, v)
		}
	}
}

// merge does in memory what assignment does in SQL. Latest compares as the database would, for texts that sort as
// they are meant to: times are in RFC 3339 with a fixed width.
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

// Delete removes the row with the key that r holds.
func (c *Changes) Delete(t *Table, r Row) {
	tc, k := c.of(t), t.key(r)
	tc.drop(k)
	tc.deleted[k] = r
}

// Clear removes the rows whose column has a value.
func (c *Changes) Clear(t *Table, column, value string) {
	tc := c.of(t)
	for k, r := range tc.rows {
		if fmt.Sprint(r.set[column]) == value {
			tc.drop(k)
		}
	}
	tc.cleared[column] = append(tc.cleared[column], value)
}

// Blank empties columns in the rows whose column by has a value.
func (c *Changes) Blank(t *Table, by, value string, columns ...string) {
	tc := c.of(t)
	set := make([]string, len(columns))
	for i, name := range columns {
		set[i] = name + " = null"
	}
	for _, r := range tc.rows {
		if fmt.Sprint(r.set[by]) == value {
			for _, name := range columns {
				r.set[name] = nil
			}
		}
	}
	k := blank{by, strings.Join(set, ", ")}
	tc.blanked[k] = append(tc.blanked[k], value)
}

// After runs a statement once when the tables have been written, with all values that a batch gave it as the array $1, in
// order. @ stands for the schema. It brings what follows from other rows of the same read model up to date.
func (c *Changes) After(sql, value string) {
	if c.after[sql] == nil {
		c.after[sql] = map[string]bool{}
	}
	c.after[sql][value] = true
}

func (tc *tableChanges) drop(k string) {
	if _, known := tc.rows[k]; known {
		delete(tc.rows, k)
		tc.order = slices.DeleteFunc(tc.order, func(o string) bool { return o == k })
	}
}

// queue adds the statements to a batch: deletions first, since what was made after a deletion is still in the rows.
func (c *Changes) queue(b *pgx.Batch, schema string) error {
	for _, t := range c.order {
		if err := c.tables[t].queue(b, t, schema); err != nil {
			return err
		}
	}
	for sql, values := range c.after {
		b.Queue(strings.ReplaceAll(sql, "@", schema+"."), slices.Sorted(maps.Keys(values)))
	}
	return nil
}

func (tc *tableChanges) queue(b *pgx.Batch, t *Table, schema string) error {
	name := schema + "." + t.Name
	for column, values := range tc.cleared {
		b.Queue(fmt.Sprintf("delete from %s where %s = any($1::text[]::%s[])", name, column, t.typeOf(column)), values)
	}
	for k, values := range tc.blanked {
		b.Queue(fmt.Sprintf("update %s set %s where %s = any($1::text[]::%s[])", name, k.set, k.by, t.typeOf(k.by)), values)
	}
	if len(tc.deleted) > 0 {
		rows := make([]Row, 0, len(tc.deleted))
		for _, r := range tc.deleted {
			rows = append(rows, r)
		}
		if err := queueJSON(b, rows, fmt.Sprintf("delete from %s t using json_populate_recordset(null::%s, $1) u where %s", name, name, t.join())); err != nil {
			return err
		}
	}
	var inserts []Row
	updates := map[string][]Row{}
	var signatures []string
	for _, k := range tc.order {
		r := tc.rows[k]
		if r.insert {
			inserts = append(inserts, r.set)
			continue
		}
		s := t.signature(r.set)
		if updates[s] == nil {
			signatures = append(signatures, s)
		}
		updates[s] = append(updates[s], r.set)
	}
	if len(inserts) > 0 {
		if err := queueJSON(b, inserts, t.insertSQL(name)); err != nil {
			return err
		}
	}
	for _, s := range signatures {
		sql := fmt.Sprintf("update %s t set %s from json_populate_recordset(null::%s, $1) u where %s", name, s, name, t.join())
		if err := queueJSON(b, updates[s], sql); err != nil {
			return err
		}
	}
	return nil
}

func queueJSON(b *pgx.Batch, rows []Row, sql string) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("projections: encode rows: %w", err)
	}
	b.Queue(sql, string(text))
	return nil
}

// typeOf is the bare SQL type of a column, so that a comparison can use the column's index.
func (t *Table) typeOf(column string) string {
	for _, c := range t.Columns {
		if c.Name == column {
			bare, _, _ := strings.Cut(c.Type, " ")
			return bare
		}
	}
	return "text"
}

func (t *Table) join() string {
	var on []string
	for _, k := range t.Key {
		on = append(on, fmt.Sprintf("t.%s = u.%s", k, k))
	}
	return strings.Join(on, " and ")
}

// signature is the list of assignments of an update, which is the same for rows that can be updated together.
func (t *Table) signature(r Row) string {
	var set []string
	for i := range t.Columns {
		c := &t.Columns[i]
		if v, ok := r[c.Name]; ok && !slices.Contains(t.Key, c.Name) {
			set = append(set, c.assignment(v))
		}
	}
	return strings.Join(set, ", ")
}

func (t *Table) insertSQL(name string) string {
	var columns, set []string
	for _, c := range t.Columns {
		columns = append(columns, c.Name)
		if !slices.Contains(t.Key, c.Name) {
			sum := "excluded." + c.Name
			if t.Counters {
				sum = "t." + c.Name + " + " + sum
			}
			set = append(set, c.Name+" = "+sum)
		}
	}
	list, conflict := strings.Join(columns, ", "), "nothing"
	if len(set) > 0 {
		conflict = "update set " + strings.Join(set, ", ")
	}
	// An event that was parked and is retried may find its row made: it then says what the row is.
	return fmt.Sprintf("insert into %s as t (%s) select %s from json_populate_recordset(null::%s, $1) on conflict (%s) do %s",
		name, list, list, name, strings.Join(t.Key, ", "), conflict)
}
