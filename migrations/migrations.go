// Package migrations holds the schema of the database: one SQL file for each subject, applied in the order of their
// names. There are no down migrations. The tables of read models are not here: each projection creates its own, one set
// for each revision.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver that goose uses
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Up applies the migrations that the database at dsn lacks. Several processes may call it at the same time: one applies
// them, the others wait. A database with a schema that this program does not know is refused: a newer version of the
// program has migrated it.
func Up(ctx context.Context, dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("migrations: open: %w", err)
	}
	defer func() { _ = db.Close() }()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrations: lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if current > newest {
		return newer(current, newest)
	}
	return nil
}

// Check returns an error unless the database at dsn has exactly the schema that this program knows. It changes nothing.
func Check(ctx context.Context, dsn string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("migrations: open: %w", err)
	}
	defer func() { _ = db.Close() }()
	var there bool
	if err := db.QueryRowContext(ctx, `select to_regclass('goose_db_version') is not null`).Scan(&there); err != nil {
		return fmt.Errorf("migrations: read the schema: %w", err)
	}
	current := int64(0)
	if there {
		if err := db.QueryRowContext(ctx, `select coalesce(max(version_id), 0) from goose_db_version`).Scan(&current); err != nil {
			return fmt.Errorf("migrations: read the schema: %w", err)
		}
	}
	newest, err := newestVersion()
	switch {
	case err != nil:
		return err
	case current > newest:
		return newer(current, newest)
	case current < newest:
		return fmt.Errorf("the database has schema %d, and this program needs schema %d: run `ledgerline migrate` first", current, newest)
	}
	return nil
}

func newer(current, newest int64) error {
	return fmt.Errorf("the database has schema %d, and this program knows schemas up to %d: run the version of the program that migrated it, or a newer one", current, newest)
}

// newestVersion is the number of the last migration.
func newestVersion() (int64, error) {
	names := Names()
	number, _, _ := strings.Cut(names[len(names)-1], "_")
	newest, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	return newest, nil
}

// Names lists the migrations, oldest first.
func Names() []string {
	entries, _ := files.ReadDir(".")
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".sql"))
	}
	return names
}
