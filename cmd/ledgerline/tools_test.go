package main

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ledgerline/test/testpg"
)

const tick = 10 * time.Millisecond

var discard = slog.New(slog.DiscardHandler)

func keysOf(m map[string]any) []string { return slices.Collect(maps.Keys(m)) }

type object = map[string]any

func TestToolsWorkWithAndWithoutARunningDev(t *testing.T) { //nolint:tparallel // the subtests depend on each other
	t.Parallel()
	dir := folder(t)
	p, f := startDev(t, dir, "--clock", "2026-03-02T17:00:00Z", "--shards", "4")
	data := "--data=" + dir
	contacts := f.WriteURL + "/v1/contacts"

	tool(t, nil, "operator", "organisation", "pause", f.OrganisationID.String(), data)
	status, refused := request(t, http.MethodPost, contacts, f.Keys.Live, `{"phone":"+12125550110"}`)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, "org_paused", refused.text("error", "code"))
	status, _ = request(t, http.MethodGet, contacts, f.Keys.Live, "")
	require.Equal(t, http.StatusOK, status)
	tool(t, nil, "operator", "organisation", "resume", f.OrganisationID.String(), data)
	status, made := request(t, http.MethodPost, contacts, f.Keys.Live, `{"phone":"+12125550110","first_name":"Ada"}`)
	require.Equal(t, http.StatusCreated, status, made)
	require.Equal(t, "2026-03-02T17:00:00.000Z", made.text("created_at"), "the clock is stopped")

	t.Run("a session follows the clock of the dev", func(t *testing.T) {
		var session struct {
			Token     string `json:"token"`
			ExpiresAt string `json:"expires_at"`
		}
		tool(t, &session, "operator", "session", "--user", f.Users["manager"].String(), "--ttl", "30m", data)
		require.Equal(t, "2026-03-02T17:30:00.000Z", session.ExpiresAt)
		status, _ := request(t, http.MethodGet, contacts, session.Token, "")
		require.Equal(t, http.StatusOK, status)
	})
	t.Run("a key is valid at once and refused after it was revoked", func(t *testing.T) {
		var key struct {
			ID     string `json:"key_id"`
			Secret string `json:"secret"`
		}
		tool(t, &key, "operator", "key", "create", "--workspace", f.WorkspaceID.String(), "--name", "Mine", "--scope", "read", data)
		status, _ := request(t, http.MethodGet, contacts, key.Secret, "")
		require.Equal(t, http.StatusOK, status)
		table := launch(t, "--output", "table", "operator", "key", "list", "--workspace", f.WorkspaceID.String(), data)
		require.Equal(t, exitOK, table.code(), &table.err)
		require.Regexp(t, `(?m)^`+key.ID+` +Mine +live +read +\S+ +\S+ +- +- +`+f.WorkspaceID.String()+`$`, table.out.String())
		require.NotContains(t, table.out.String(), key.Secret)
		tool(t, nil, "operator", "--as", "ada@example.com", "key", "revoke", key.ID, data)
		status, _ = request(t, http.MethodGet, contacts, key.Secret, "")
		require.Equal(t, http.StatusUnauthorized, status)
		_, log := request(t, http.MethodGet, f.ReadURL+"/v1/audit-log?limit=1", f.Sessions["owner"], "")
		entry := log["data"].([]any)[0].(object) //nolint:errcheck,forcetypeassert // the audit log has entries
		require.Equal(t, "api_key.revoked", entry["type"])
		require.Equal(t, object{"type": "operator", "id": "ada@example.com"}, entry["actor"])
		anonymous := launch(t, "operator", "--as", "Ada Lovelace", "key", "revoke", key.ID, data)
		require.Equal(t, exitUsage, anonymous.code())
		require.Contains(t, anonymous.err.String(), `--as "Ada Lovelace" is not a name`)
	})
	t.Run("people are listed with their roles", func(t *testing.T) {
		var people []object
		tool(t, &people, "operator", "user", "list", "--organisation", f.OrganisationID.String(), data)
		owner := slices.IndexFunc(people, func(p object) bool { return p["user_id"] == f.Users["owner"].String() })
		require.GreaterOrEqual(t, owner, 0)
		require.Equal(t, []any{f.WorkspaceID.String() + "=owner"}, people[owner]["roles"])
	})
	t.Run("every list can be a table", func(t *testing.T) {
		for list, column := range map[string]string{
			"organisation": "TIME_ZONE", "workspace": "MEMBERS", "user": "EMAIL", "key": "SCOPES", "line": "PHONE", "pool": "ROTATION", "line-request": "AREA_CODES",
		} {
			table := launch(t, "--output=table", "operator", list, "list", data)
			require.Equal(t, exitOK, table.code(), &table.err)
			require.Contains(t, strings.SplitN(table.out.String(), "\n", 2)[0], column)
		}
	})
	t.Run("an export never shows the password of a carrier", func(t *testing.T) {
		p := launchWith(t, "hunter2 and more\n", "operator", "line", "carrier", f.Lines.Live[0].ID, "--url", "http://127.0.0.1:1", data)
		require.Equal(t, exitOK, p.code(), &p.err)
		require.Contains(t, p.out.String(), "/carriers/bluebubbles/"+f.Lines.Live[0].ID+"/")
		open := launch(t, "export", "--workspace", f.WorkspaceID.String(), "--open-personal-data", data)
		require.Equal(t, exitOK, open.code(), &open.err)
		require.Contains(t, open.out.String(), "line.carrier_configured")
		require.NotContains(t, open.out.String(), "hunter2")
	})
	t.Run("lines and pools are listed", func(t *testing.T) { listsLinesAndPools(t, data, f) })
	t.Run("compliance is shown and changed", func(t *testing.T) { changesCompliance(t, data, f) })
	t.Run("an organisation is created with everything it needs", func(t *testing.T) { createOrganisation(t, data, contacts) })
	t.Run("an export shows personal data only on request", func(t *testing.T) {
		closed := launch(t, "export", "--workspace", f.WorkspaceID.String(), data)
		require.Equal(t, exitOK, closed.code(), &closed.err)
		require.NotContains(t, closed.out.String(), "Ada")
		open := launch(t, "export", "--workspace", f.WorkspaceID.String(), "--open-personal-data", data)
		require.Equal(t, exitOK, open.code(), &open.err)
		require.Contains(t, open.out.String(), `"first_name":"Ada"`)
		var last int64
		for line := range strings.Lines(open.out.String()) {
			var e struct {
				Workspace string `json:"workspace_id"`
				Position  int64  `json:"position"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.Equal(t, f.WorkspaceID.String(), e.Workspace)
			require.Greater(t, e.Position, last)
			last = e.Position
		}
	})
	t.Run("a replay gives the same answers", func(t *testing.T) {
		_, before := request(t, http.MethodGet, contacts, f.Keys.Live, "")
		var done struct {
			Replayed []object `json:"replayed"`
		}
		tool(t, &done, "replay", "--all", data)
		require.NotEmpty(t, done.Replayed)
		for _, one := range done.Replayed {
			require.InDelta(t, 2, one["revision"], 0)
		}
		_, after := request(t, http.MethodGet, contacts, f.Keys.Live, "")
		require.Equal(t, before, after)
		tool(t, nil, "replay", "contacts", "--as-of", "2026-03-02T17:00:00Z", "--into", "then", data)
	})
	require.Equal(t, exitOK, p.signal(syscall.SIGINT))

	// The database does not run now: a tool starts and stops it, and two concurrent tools share it.
	var verified struct {
		Intact bool             `json:"intact"`
		Shards []map[string]any `json:"shards"`
	}
	pair := []*program{launch(t, "audit", "verify", data), launch(t, "projections", "list", data)}
	for _, one := range pair {
		require.Equal(t, exitOK, one.code(), &one.err)
	}
	require.NoError(t, json.Unmarshal([]byte(pair[0].out.String()), &verified))
	require.True(t, verified.Intact)
	require.Len(t, verified.Shards, 4)
	var organisations []object
	tool(t, &organisations, "operator", "organisation", "list", data)
	require.Len(t, organisations, 3)
	require.NoFileExists(t, filepath.Join(dir, "postgres", "data", "postmaster.pid"), "the last tool has stopped it")
}

// createOrganisation creates an organisation with everything that is needed to create a contact.
func createOrganisation(t *testing.T, data, contacts string) {
	t.Helper()
	var made struct {
		Organisation string  `json:"organisation_id"`
		Workspace    string  `json:"workspace_id"`
		User         string  `json:"user_id"`
		Team         string  `json:"team_id"`
		Pool         string  `json:"pool_id"`
		Line         string  `json:"line_id"`
		Token        string  `json:"token"`
		Sandbox      devLine `json:"sandbox"`
	}
	tool(t, &made, "operator", "organisation", "create", "--name", "New", "--time-zone", "Europe/Berlin", data)
	tool(t, &made, "operator", "workspace", "create", "--organisation", made.Organisation, "--name", "First", data)
	require.NotEmpty(t, made.Sandbox.Phone)
	workspace := "--workspace=" + made.Workspace
	tool(t, &made, "operator", "user", "create", "--organisation", made.Organisation, "--name", "Grace", "--email", "grace@example.com",
		"--role", made.Workspace+"=manager", data)
	tool(t, &made, "operator", "team", "create", workspace, "--name", "Sales", data)
	tool(t, nil, "operator", "team", "add", "--team", made.Team, "--user", made.User, data)
	tool(t, &made, "operator", "pool", "create", workspace, "--name", "Special", data)
	tool(t, &made, "operator", "line", "create", workspace, "--phone", "+12125550299", "--pool", made.Pool, "--state", "active", "--carrier", "simulator", data)
	tool(t, nil, "operator", "line", "state", made.Line, "quarantined", "--reason", "complaints", data)
	tool(t, nil, "operator", "role", "grant", workspace, "--user", made.User, "--role", "admin", data)
	tool(t, &made, "operator", "session", "--user", made.User, data)
	status, _ := request(t, http.MethodPost, contacts, made.Token, `{"phone":"+12125550111"}`)
	require.Equal(t, http.StatusCreated, status)
	tool(t, nil, "operator", "role", "revoke", workspace, "--user", made.User, data)
	status, _ = request(t, http.MethodGet, contacts, made.Token, "")
	require.Equal(t, http.StatusForbidden, status)
}

func TestNodesOfDifferentRolesShareADatabase(t *testing.T) {
	t.Parallel()
	dsn, dir := testpg.Database(t), folder(t)
	require.NoError(t, os.Mkdir(dir, 0o755))
	keys, secret := filepath.Join(dir, "keys.json"), filepath.Join(dir, "secret")
	tool(t, nil, "keys", "create", keys)
	require.Equal(t, exitFailed, launch(t, "keys", "create", keys).code(), "keys in use are not replaced")
	require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("s", 32)+"\n"), 0o600))
	database := []string{"--database-url", dsn, "--keys-file", keys}
	tool(t, nil, append([]string{"migrate"}, database...)...)

	addresses := map[string]string{}
	var nodes []*program
	for _, roles := range []string{"write", "read", "project,process"} {
		args := append([]string{"serve", "--addr", "127.0.0.1:0", "--session-secret-file", secret}, database...)
		node := launch(t, append(args, strings.Split(roles, ",")...)...)
		nodes = append(nodes, node)
		require.Eventually(t, func() bool {
			addresses[roles] = served(node)
			return addresses[roles] != ""
		}, patience, tick, "%s: %s", roles, &node.err)
		for _, path := range []string{"/healthz", "/readyz"} {
			status, _ := request(t, http.MethodGet, addresses[roles]+path, "", "")
			require.Equal(t, http.StatusOK, status, "%s %s", roles, path)
		}
	}
	var made struct {
		Organisation string `json:"organisation_id"`
		Workspace    string `json:"workspace_id"`
		User         string `json:"user_id"`
		Token        string `json:"token"`
	}
	operate := func(args ...string) { tool(t, &made, append(append([]string{"operator"}, args...), database...)...) }
	operate("organisation", "create", "--name", "New")
	operate("workspace", "create", "--organisation", made.Organisation, "--name", "First")
	lineCreate := append([]string{"operator", "line", "create", "--workspace", made.Workspace, "--phone", "+12125550299", "--carrier", "simulator"}, database...)
	simulated := launch(t, lineCreate...)
	require.Equal(t, exitUsage, simulated.code())
	require.Contains(t, simulated.err.String(), "the simulator sends to nobody")
	tool(t, nil, append(lineCreate, "--simulated")...)
	operate("user", "create", "--organisation", made.Organisation, "--name", "Grace", "--email", "g@example.com", "--role", made.Workspace+"=owner")
	operate("session", "--user", made.User, "--session-secret-file", secret)
	status, contact := request(t, http.MethodPost, addresses["write"]+"/v1/contacts", made.Token, `{"phone":"+12125550110"}`)
	require.Equal(t, http.StatusCreated, status, contact)
	status, _ = request(t, http.MethodGet, addresses["read"]+"/v1/contacts/"+contact.text("id"), made.Token, "")
	require.Equal(t, http.StatusOK, status)
	status, _ = request(t, http.MethodPost, addresses["write"]+"/dev/clock", "", `{"advance":"PT1S"}`)
	require.Equal(t, http.StatusNotFound, status, "outside dev mode the route does not exist")
	for _, node := range nodes {
		require.Equal(t, exitOK, node.signal(syscall.SIGTERM), &node.err)
		require.NotContains(t, node.err.String(), "Grace")
		require.NotContains(t, node.err.String(), "+12125550110")
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	defer pool.Close()
	tampered(t, pool, database)
}

// served is the address that a node logged when it was ready; "" before.
func served(p *program) string {
	for line := range strings.Lines(p.err.String()) {
		var entry struct {
			Message string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "serve: the node is ready" {
			return "http://" + entry.Address
		}
	}
	return ""
}

// tampered changes an event directly in the database and requires that the audit finds it.
func tampered(t *testing.T, pool *pgxpool.Pool, database []string) {
	t.Helper()
	verify := append([]string{"audit", "verify"}, database...)
	var before struct {
		Shards []struct {
			Head string `json:"head"`
		} `json:"shards"`
	}
	tool(t, &before, verify...)
	heads := filepath.Join(t.TempDir(), "heads.txt")
	require.NoError(t, os.WriteFile(heads, []byte(before.Shards[0].Head), 0o600))
	tool(t, nil, append(verify, "--heads", heads)...)
	tool(t, nil, append(verify, "--heads", heads, "--continue")...)
	_, err := pool.Exec(t.Context(), `begin; set local session_replication_role = replica; update ledger_events set request_id = request_id || 'x' where position = 3; commit`)
	require.NoError(t, err)
	tool(t, nil, append(verify, "--heads", heads, "--continue")...)
	found := launch(t, verify...)
	require.Equal(t, exitFailed, found.code())
	require.Contains(t, found.out.String(), `"tampered_position":3`)
	require.Contains(t, found.err.String(), "shard 0, position 3")
}

func TestOpenAPIDocumentNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	var document struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	tool(t, &document, "openapi")
	require.Equal(t, "3.1.0", document.OpenAPI)
	require.Contains(t, document.Paths, "/v1/messages")
}

func TestDirectoryWithoutDataIsReported(t *testing.T) {
	t.Parallel()
	p := launch(t, "audit", "verify", "--data", folder(t))
	require.Equal(t, exitFailed, p.code())
	require.Contains(t, p.err.String(), "is not a data directory")
}

func TestWrongArgumentsNameTheHelpOfTheirCommand(t *testing.T) {
	t.Parallel()
	for line, hint := range map[string]string{
		"operator key create --label x": "Try: ledgerline operator key create --help",
		"operator key lst":              "Try: ledgerline operator key --help",
		"serv":                          "Try: ledgerline --help",
	} {
		p := launch(t, strings.Fields(line)...)
		require.Equal(t, exitUsage, p.code())
		require.Contains(t, p.err.String(), hint+"\n")
	}
}
