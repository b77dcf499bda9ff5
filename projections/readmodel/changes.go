package readmodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore/feed"
)

// Row holds values of a table's columns by name; nil is null.
type Row map[string]any

// Add is a column's value in an update that is added to the stored number instead of replacing it. The column must not
// be null.
type Add int

// Changes collects what a batch of events does to the tables of a read model, and writes the net effect with few
// statements: a row that is inserted and updated ten times within a batch is written by one insert. This is what makes
// a replay fast.
//
// A column that its table does not have is a mistake in the program. The batch then fails as a whole, and the feed
// parks the event.
type Changes struct {
	tables map[*Table]*tableChanges
	order  []*Table
	after  map[string]map[string]bool // statements that run after the tables are written -> the values for their $1
	err    error                      // the first mistake
}

type tableChanges struct {
	rows    map[string]*rowChange
	order   []string
	deleted map[string]Row      // by key
	cleared map[string][]string // column -> values whose rows are deleted
	blanked map[blank][]string  // values of the column by whose rows are updated
}

// blank is an update that sets columns to null in the rows where the column by has given values. set is its set clause.
type blank struct{ by, set string }

type rowChange struct {
	insert bool
	set    Row
}

// NewChanges returns empty changes. Tables are written in the given order.
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

// check stores an error for the first column in r that the table does not have.
func (c *Changes) check(t *Table, r Row) {
	for name := range r {
		if c.err == nil {
			c.err = t.check(name)
		}
	}
}

// Insert inserts a row. Every not null column must be set; a missing counter of a Counters table is 0.
func (c *Changes) Insert(t *Table, r Row) {
	c.check(t, r)
	tc, k := c.of(t), t.rowKey(r)
	if t.Counters {
		for _, col := range t.Columns {
			if _, set := r[col.Name]; !set {
				r[col.Name] = Add(0)
			}
		}
	}
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

// Update sets columns of the row whose key is in r. It does nothing when there is no such row.
func (c *Changes) Update(t *Table, r Row) {
	c.check(t, r)
	tc, k := c.of(t), t.rowKey(r)
	known := tc.rows[k]
	if known == nil {
		if _, deleted := tc.deleted[k]; deleted {
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

// Delete deletes the row whose key is in r.
func (c *Changes) Delete(t *Table, r Row) {
	c.check(t, r)
	tc, k := c.of(t), t.rowKey(r)
	tc.drop(k)
	tc.deleted[k] = r
}

// DeleteWhere deletes the rows whose column has a value.
func (c *Changes) DeleteWhere(t *Table, column, value string) {
	c.check(t, Row{column: nil})
	tc := c.of(t)
	for k, r := range tc.rows {
		if fmt.Sprint(r.set[column]) == value {
			tc.drop(k)
		}
	}
	tc.cleared[column] = append(tc.cleared[column], value)
}

// BlankWhere sets columns to null in the rows whose column by has a value.
func (c *Changes) BlankWhere(t *Table, by, value string, columns ...string) {
	if c.err == nil {
		c.err = t.check(append([]string{by}, columns...)...)
	}
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

// After runs a statement once after the tables are written. Its $1 is the sorted array of all values that the batch
// passed with the same statement; @ stands for the schema. Use it for rows that are derived from other rows of the read
// model.
func (c *Changes) After(sql, value string) {
	if c.after[sql] == nil {
		c.after[sql] = map[string]bool{}
	}
	c.after[sql][value] = true
}

// Only returns the values of the only row that was inserted or updated in a table; nil when there is none.
func (c *Changes) Only(t *Table) Row {
	for _, r := range c.of(t).rows {
		return r.set
	}
	return nil
}

func (tc *tableChanges) drop(k string) {
	if _, known := tc.rows[k]; known {
		delete(tc.rows, k)
		tc.order = slices.DeleteFunc(tc.order, func(o string) bool { return o == k })
	}
}

// addTo adds the statements to a batch. Those of a table delete rows before they write any, so that a row that is
// inserted after its deletion within the batch stays.
func (c *Changes) addTo(b *pgx.Batch, schema string) error {
	if c.err != nil {
		return &feed.UnprocessableError{Cause: c.err}
	}
	for _, t := range c.order {
		if err := c.tables[t].addTo(b, t, schema); err != nil {
			return err
		}
	}
	for sql, values := range c.after {
		b.Queue(strings.ReplaceAll(sql, "@", schema+"."), slices.Sorted(maps.Keys(values)))
	}
	return nil
}

func (tc *tableChanges) addTo(b *pgx.Batch, t *Table, schema string) error {
	name := schema + "." + t.Name
	for column, values := range tc.cleared {
		b.Queue(fmt.Sprintf("delete from %s where %s = any($1::text[]::%s[])", name, column, t.bareType(column)), values)
	}
	for k, values := range tc.blanked {
		b.Queue(fmt.Sprintf("update %s set %s where %s = any($1::text[]::%s[])", name, k.set, k.by, t.bareType(k.by)), values)
	}
	if len(tc.deleted) > 0 {
		sql := fmt.Sprintf("delete from %s t using json_populate_recordset(null::%s, $1) u where %s", name, name, t.joinSQL())
		if err := addRows(b, slices.Collect(maps.Values(tc.deleted)), sql); err != nil {
			return err
		}
	}
	var inserts []Row
	updates := map[string][]Row{} // by assignments
	var order []string
	for _, k := range tc.order {
		r := tc.rows[k]
		if r.insert {
			inserts = append(inserts, r.set)
			continue
		}
		set := t.assignments(r.set)
		if set == "" { // the update has no column besides the key
			continue
		}
		if updates[set] == nil {
			order = append(order, set)
		}
		updates[set] = append(updates[set], r.set)
	}
	if len(inserts) > 0 {
		if err := addRows(b, inserts, t.insertSQL(name)); err != nil {
			return err
		}
	}
	for _, set := range order {
		sql := fmt.Sprintf("update %s t set %s from json_populate_recordset(null::%s, $1) u where %s", name, set, name, t.joinSQL())
		if err := addRows(b, updates[set], sql); err != nil {
			return err
		}
	}
	return nil
}

// addRows adds a statement whose $1 is the rows as JSON.
func addRows(b *pgx.Batch, rows []Row, sql string) error {
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("readmodel: encode rows: %w", err)
	}
	b.Queue(sql, string(text))
	return nil
}
