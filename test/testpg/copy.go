package testpg

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Copy is an older state of a test's database.
type Copy struct {
	t      testing.TB
	server *testServer
	name   string // of the database
}

// TakeCopy copies a database of Database as it is now. It ends all connections to the database first.
func TakeCopy(t testing.TB, dsn string) *Copy {
	t.Helper()
	server, err := sharedServer()
	if err != nil {
		t.Fatalf("testpg: %v", err)
	}
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("testpg: %v", err)
	}
	c := &Copy{t, server, strings.TrimPrefix(address.Path, "/")}
	c.exclusively(fmt.Sprintf("create database %s_copy template %s", c.name, c.name))
	t.Cleanup(func() {
		for _, suffix := range []string{"_copy", "_lost"} {
			if err := server.exec(context.WithoutCancel(t.Context()), "drop database if exists "+c.name+suffix+" with (force)"); err != nil {
				t.Errorf("testpg: %v", err)
			}
		}
	})
	return c
}

// Restore puts the copy in the place of the database: its history goes back to the time of TakeCopy, as after a
// failover that loses the last commits. It ends all connections to the database, which then lead to the copy.
func (c *Copy) Restore() {
	c.t.Helper()
	c.exclusively(fmt.Sprintf("alter database %s rename to %s_lost", c.name, c.name), fmt.Sprintf("alter database %s_copy rename to %s", c.name, c.name))
}

// exclusively runs statements while nothing is connected to the database.
func (c *Copy) exclusively(statements ...string) {
	c.t.Helper()
	ctx := c.t.Context()
	conn, err := pgx.Connect(ctx, c.server.dsn("postgres"))
	if err != nil {
		c.t.Fatalf("testpg: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	exec := func(statement string) {
		c.t.Helper()
		if _, err := conn.Exec(ctx, statement); err != nil {
			c.t.Fatalf("testpg: %s: %v", statement, err)
		}
	}
	exec("alter database " + c.name + " allow_connections false")
	for left := 1; left > 0; {
		exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = '" + c.name + "'")
		if err := conn.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = $1", c.name).Scan(&left); err != nil {
			c.t.Fatalf("testpg: %v", err)
		}
	}
	for _, statement := range statements {
		exec(statement)
	}
	exec("update pg_database set datallowconn = true where datname like '" + c.name + "%'")
}
