package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/migrations"
	"ledgerline/test/testpg"
)

func TestDatabaseOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	dsn := testpg.Database(t)
	require.NoError(t, migrations.Up(t.Context(), dsn))
	require.NoError(t, migrations.Up(t.Context(), dsn), "again")
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `insert into goose_db_version (version_id, is_applied) values (9999, true)`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.ErrorContains(t, migrations.Up(t.Context(), dsn), "the database has schema 9999, and this program knows schemas up to")
}
