package projections

import (
	"context"
	"fmt"
	"slices"

	"ledgerline/projections/readmodel"

	"github.com/jackc/pgx/v5"
)

// FieldColumns is how many custom fields get a column of their own in an export. People's address books have a few dozen;
// keys that were made by mistake, one for each contact, must not make a file of a million columns.
const FieldColumns = 200

// longestFieldColumn is the longest key, in characters, that makes a column.
const longestFieldColumn = 100

// ContactExport takes a file's worth of contacts as they are read.
type ContactExport interface {
	// Begin tells, first, which custom fields are to be columns: those that most of the contacts have, by name; more tells
	// that there are others.
	Begin(fields []string, more bool) error
	// Contact tells one contact, newest first. It may be changed after the call.
	Contact(c *Contact) error
}

// ExportContacts reads all contacts that the viewer can see and that fit the filters, in constant memory. They are read in
// one snapshot: the file shows one moment, however long it takes, at the cost of a connection and of dead rows that are
// kept meanwhile, which is why the caller bounds how many exports run, and how long a client may dawdle. Reading page by
// page would not only show many moments; under a filter each page could cost as much as the whole.
func (s *Store) ExportContacts(ctx context.Context, v Viewer, by ContactFilter, to ContactExport) error {
	f, none, err := by.plain(ctx, s, v)
	if err != nil {
		return err
	}
	if none {
		return to.Begin(nil, false)
	}
	err = pgx.BeginTxFunc(ctx, s.Pool(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		fields, more, err := fieldColumns(ctx, tx, f)
		if err != nil {
			return err
		}
		if err := to.Begin(fields, more); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `select `+contactColumns+` from read.contacts c`+f.Where()+` order by c.position desc`, f.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c, err := scanContact(rows)
			if err != nil {
				return err
			}
			if err := to.Contact(&c); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("projections: export contacts: %w", err)
	}
	return nil
}

// fieldColumns finds the custom fields that most of the contacts have and that can be columns, by name; more tells that there
// are others.
func fieldColumns(ctx context.Context, tx pgx.Tx, f *readmodel.Filter) (columns []string, more bool, err error) {
	counted := *f
	longest, most := counted.Arg(longestFieldColumn), counted.Arg(FieldColumns+1)
	rows, err := tx.Query(ctx, `select key, fits from (
			select key, count(*) as n, char_length(key) between 1 and `+longest+` as fits
			from read.contacts c cross join lateral jsonb_object_keys(c.fields) key`+counted.Where()+` and c.fields <> '{}' group by key
		) k order by fits desc, n desc, key limit `+most, counted.Args...)
	if err != nil {
		return nil, false, err
	}
	var key string
	var fits bool
	_, err = pgx.ForEachRow(rows, []any{&key, &fits}, func() error {
		if fits && len(columns) < FieldColumns {
			columns = append(columns, key)
		} else {
			more = true
		}
		return nil
	})
	slices.Sort(columns)
	return columns, more, err
}
