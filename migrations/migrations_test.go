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
	require.ErrorContains(t, migrations.Check(t.Context(), dsn), "the database has schema 9999, and this program knows schemas up to")
	require.ErrorContains(t, migrations.Up(t.Context(), dsn), "the database has schema 9999, and this program knows schemas up to")
}

func TestDatabaseOfAnOlderProgramIsNotMigratedByACheck(t *testing.T) {
	t.Parallel()
	dsn := testpg.Database(t)
	require.NoError(t, migrations.Check(t.Context(), dsn))
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), `delete from goose_db_version where version_id = (select max(version_id) from goose_db_version)`)
	require.NoError(t, err)
	require.ErrorContains(t, migrations.Check(t.Context(), dsn), "run `ledgerline migrate` first")
	_, err = conn.Exec(t.Context(), `drop table goose_db_version`)
	require.NoError(t, err)
	require.ErrorContains(t, migrations.Check(t.Context(), dsn), "the database has schema 0, and this program needs schema")
}
