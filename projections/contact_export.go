package projections

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/projections/readmodel"
)

// FieldColumns is how many custom fields get a column of their own in an export. Address books have a few dozen. Keys
// that were created by mistake, such as one for each contact, must not make a file of a million columns.
const FieldColumns = 200

// exportTimeout bounds the statements of an export. Their time includes that in which the client takes the file.
const exportTimeout = 30 * time.Minute

// longestFieldColumn is the longest key, in characters, that gets a column.
const longestFieldColumn = 100

// ContactWriter writes contacts to a file as they are read.
type ContactWriter interface {
	// Begin is called once, before the first contact, with the custom fields that get a column: those that most contacts
	// have, sorted by key. more tells that there are other custom fields.
	Begin(fields []string, more bool) error
	// Contact is called for each contact, newest first. The writer may change the contact.
	Contact(c *Contact) error
}

// ExportContacts reads all contacts that the viewer may see and that match the filters, in constant memory. One
// snapshot serves the whole export, so that the file shows one moment. The snapshot occupies a connection and delays
// the removal of dead rows: the caller limits the number of exports, and how long a slow client may take. Reading page
// by page would show many moments, and under a filter each page could cost as much as the whole.
func (s *Store) ExportContacts(ctx context.Context, v Viewer, by ContactFilter, to ContactWriter) error {
	f, empty, err := by.allSQL(ctx, s, v)
	if err != nil {
		return err
	}
	if empty {
		return to.Begin(nil, false)
	}
	err = s.exportSnapshot(ctx, func(tx pgx.Tx) error {
		fields, more, err := fieldColumns(ctx, tx, f)
		if err != nil {
			return err
		}
		if err := to.Begin(fields, more); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `select `+contactFields.SQL+` from read.contacts c`+f.Where()+` order by c.position desc`, f.Args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c, err := contactFields.Scan(rows)
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

// exportSnapshot runs read in a transaction that sees one moment, with the statement timeout of exports.
func (s *Store) exportSnapshot(ctx context.Context, read func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.DB(ctx), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readmodel.StatementTimeout(exportTimeout)); err != nil {
			return err
		}
		return read(tx)
	})
}

// fieldColumns finds the keys for ContactWriter.Begin.
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
