// Package migrations holds the schema of the database: one SQL file for each subject, applied in the order of their
// names. There are no down migrations. The tables of read models are not here: each projection creates its own, one set
// for each revision.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
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
		return fmt.Errorf("the database has schema %d, and this program knows schemas up to %d: run the version of the program that migrated it, or a newer one", current, newest)
	}
	return nil
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
