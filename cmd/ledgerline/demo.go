package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.jetify.com/typeid/v2"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/eventstore"
)

// demo creates the demo data of a dev through commands. Ids and secrets are derived from the keyring, so that every
// start knows them: it finds what exists and creates what is missing, also after a start that was killed.
type demo struct {
	ledger *eventstore.Ledger
	app    *commands.App
	ids    *derived
}

// operator is the actor of the events that operator commands and the demo data append.
var operator = events.Actor{Type: "operator"}

// Live lines of the demo data: the main workspace has three, each further one has one.
var (
	mainLines   = []string{"+12125550201", "+12125550202", "+12125550203"}
	secondLines = []string{"+12125550204"}
	otherLines  = []string{"+12125550205"}
)

// makeDemo creates the missing demo data. It returns the dev file without addresses and sessions.
func makeDemo(ctx context.Context, ledger *eventstore.Ledger, log *slog.Logger) (*devFile, error) {
	ids := &derived{key: ledger.Keyring().DeriveKey("demo")}
	app, err := commands.New(commands.Config{Ledger: ledger, IDs: ids, Random: ids, Logger: log, Cache: 256})
	if err != nil {
		return nil, fmt.Errorf("demo data: %w", err)
	}
	f, err := (&demo{ledger, app, ids}).make(ctx)
	if err != nil {
		return nil, fmt.Errorf("demo data: %w", err)
	}
	return f, nil
}

func (d *demo) make(ctx context.Context) (*devFile, error) {
	org, err := d.organisation(ctx, "Demo")
	if err != nil {
		return nil, err
	}
	other, err := d.organisation(ctx, "Other")
	if err != nil {
		return nil, err
	}
	first, err := d.workspace(ctx, org, "Main", mainLines)
	if err != nil {
		return nil, err
	}
	f := &devFile{
		OrganisationID: org, WorkspaceID: first.id, Keys: first.keys, PoolID: first.pool, Users: map[string]uuid.UUID{},
		Lines: devLines{Sandbox: first.sandbox, Live: first.lines},
	}
	for _, role := range organisation.Roles() {
		if f.Users[string(role)], err = d.user(ctx, org, first.id, role); err != nil {
			return nil, err
		}
	}
	if f.TeamID, err = d.team(ctx, org, first.id, "Support", f.Users["manager"], f.Users["agent"]); err != nil {
		return nil, err
	}
	second, err := d.workspace(ctx, org, "Second", secondLines)
	if err != nil {
		return nil, err
	}
	third, err := d.workspace(ctx, other, "Other", otherLines)
	if err != nil {
		return nil, err
	}
	f.Workspaces = []devWorkspace{{org, second.id, second.keys}, {other, third.id, third.keys}}
	return f, nil
}

// once runs create unless the stream exists. Before that it restarts the sequence of ids of the step.
func (d *demo) once(ctx context.Context, step, stream string, create func() error) error {
	found, err := d.ledger.Load(ctx, stream, 0)
	if err != nil || len(found) > 0 {
		return err
	}
	d.ids.begin(step)
	if err := create(); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

func (d *demo) organisation(ctx context.Context, name string) (uuid.UUID, error) {
	step := "organisation " + name
	id := d.ids.begin(step).UUID()
	return id, d.once(ctx, step, organisation.Stream(id), func() error {
		_, err := d.app.CreateOrganisation(ctx, commands.Request{Actor: operator}, name, "America/New_York")
		return err
	})
}

type demoWorkspace struct {
	id      uuid.UUID
	pool    string
	sandbox devLine
	lines   []devLine
	keys    devKeys
}

func (d *demo) workspace(ctx context.Context, org uuid.UUID, name string, phones []string) (w demoWorkspace, err error) {
	step := "workspace " + name
	d.ids.begin(step)
	w.id, w.pool, w.sandbox.ID = d.ids.UUID(), d.ids.TypeID("pool"), d.ids.TypeID("ln")
	req := commands.Request{Organisation: org, Workspace: w.id, Actor: operator}
	if err := d.once(ctx, step, organisation.WorkspaceStream(w.id), func() error {
		_, err := d.app.CreateWorkspace(ctx, req, name)
		return err
	}); err != nil {
		return w, err
	}
	sandbox, err := d.app.FindLine(ctx, w.sandbox.ID)
	if err != nil {
		return w, err
	}
	w.sandbox.Phone = sandbox.Phone
	for _, phone := range phones {
		step := "line " + phone
		l := devLine{d.ids.begin(step).TypeID("ln"), phone}
		w.lines = append(w.lines, l)
		if err := d.once(ctx, step, l.ID, func() error {
			_, err := d.app.ProvisionLine(ctx, req, commands.ProvisionLine{Phone: phone, State: line.Active})
			return err
		}); err != nil {
			return w, err
		}
	}
	if w.keys.Live, err = d.key(ctx, req, name, apikey.Live); err != nil {
		return w, err
	}
	w.keys.Test, err = d.key(ctx, req, name, apikey.Test)
	return w, err
}

// key returns the secret of an API key with all scopes, and creates the key when it is missing.
func (d *demo) key(ctx context.Context, req commands.Request, workspace string, env apikey.Env) (secret string, err error) {
	step := "key " + workspace + " " + string(env)
	id := d.ids.begin(step).TypeID("key")
	var random [apikey.RandomBytes]byte
	if _, err := io.ReadFull(d.ids.begin(step), random[:]); err != nil {
		return "", err
	}
	secret = apikey.NewSecret(env, random, d.ledger.Keyring().DeriveKey("api key check"))
	return secret, d.once(ctx, step, id, func() error {
		made, err := d.app.CreateAPIKey(ctx, req, commands.CreateAPIKey{
			Name: "Demo, " + string(env), Env: env, Scopes: []string{string(apikey.Read), string(apikey.Send), string(apikey.Admin)},
		})
		if err == nil && (made.ID != id || made.Secret != secret) {
			err = errors.New("the key is not the one that was derived")
		}
		return err
	})
}

func (d *demo) user(ctx context.Context, org, workspace uuid.UUID, role organisation.Role) (uuid.UUID, error) {
	step := "user " + string(role)
	id := d.ids.begin(step).UUID()
	return id, d.once(ctx, step, organisation.UserStream(id), func() error {
		_, err := d.app.CreateUser(ctx, commands.Request{Organisation: org, Actor: operator}, commands.CreateUser{
			FullName: "Demo " + string(role), Email: string(role) + "@demo.example", Roles: map[uuid.UUID]organisation.Role{workspace: role},
		})
		return err
	})
}

func (d *demo) team(ctx context.Context, org, workspace uuid.UUID, name string, members ...uuid.UUID) (uuid.UUID, error) {
	step := "team " + name
	id := d.ids.begin(step).UUID()
	return id, d.once(ctx, step, organisation.TeamStream(id), func() error {
		_, err := d.app.CreateTeam(ctx, commands.Request{Organisation: org, Workspace: workspace, Actor: operator}, name, members...)
		return err
	})
}

// derived makes ids and secrets from a key: the same sequence for the same step. It is not safe for concurrent use.
type derived struct {
	key  []byte
	step string
	ids  uint64
	bits uint64
}

// begin starts the sequence of a step.
func (d *derived) begin(step string) *derived {
	d.step, d.ids, d.bits = step, 0, 0
	return d
}

func (d *derived) sum(what string, n uint64) []byte {
	mac := hmac.New(sha256.New, d.key)
	mac.Write([]byte(what + "\x00" + d.step + "\x00"))
	mac.Write(binary.BigEndian.AppendUint64(nil, n))
	return mac.Sum(nil)
}

// demoEpoch is the time in the ids of the demo data. They must not depend on when they are made.
var demoEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// UUID implements commands.IDs: a UUIDv7.
func (d *derived) UUID() uuid.UUID {
	var id uuid.UUID
	copy(id[:], d.sum("id", d.ids))
	d.ids++
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(demoEpoch.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// TypeID implements commands.IDs.
func (d *derived) TypeID(prefix string) string {
	id, err := typeid.FromUUID(prefix, d.UUID().String())
	if err != nil {
		panic(err) // the prefix is invalid: a programming error
	}
	return id.String()
}

// Read implements io.Reader: bytes for secrets.
func (d *derived) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], d.sum("bits", d.bits))
		d.bits++
	}
	return len(p), nil
}
