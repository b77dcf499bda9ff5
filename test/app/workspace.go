package app

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/commands"
	"ledgerline/domain/apikey"
	"ledgerline/domain/line"
	"ledgerline/domain/organisation"
	"ledgerline/events"
)

// Line is a line with its number.
type Line struct{ ID, Phone string }

// Workspace is a workspace with what tests need: keys with all scopes, a user with a session for each role, two live
// lines that the simulator serves, and the sandbox line.
type Workspace struct {
	Organisation uuid.UUID
	ID           uuid.UUID
	PoolID       string
	Live, Test   *Client
	Lines        []Line
	Sandbox      Line
	Users        map[organisation.Role]uuid.UUID
	Sessions     map[organisation.Role]*Client

	app *App
}

// Operator returns a request of the operator for this workspace.
func (w *Workspace) Operator() commands.Request {
	return commands.Request{Organisation: w.Organisation, Workspace: w.ID, Actor: events.Actor{Type: "operator", ID: "test"}, RequestID: "req_test"}
}

// commands returns the commands of the first node.
func (a *App) commands() *commands.App { return a.Nodes[0].App }

// NewOrganisation creates another organisation with a workspace.
func (a *App) NewOrganisation(name string) *Workspace {
	a.t.Helper()
	made, err := a.commands().CreateOrganisation(a.t.Context(), commands.Request{Actor: events.Actor{Type: "operator", ID: "test"}}, name, "America/New_York")
	require.NoError(a.t, err)
	org := uuid.MustParse(made.Ref)
	_, err = a.commands().SetSendingLimits(a.t.Context(), commands.Request{Organisation: org, Actor: events.Actor{Type: "operator", ID: "test"}}, a.limits)
	require.NoError(a.t, err)
	return a.newWorkspace(org, "Main", nil)
}

// NewWorkspace creates another workspace of the first organisation, with the same users in the same roles.
func (a *App) NewWorkspace(name string) *Workspace {
	a.t.Helper()
	return a.newWorkspace(a.Organisation, name, a.Users)
}

func (a *App) newWorkspace(org uuid.UUID, name string, users map[organisation.Role]uuid.UUID) *Workspace {
	a.t.Helper()
	w := &Workspace{Organisation: org, app: a, Users: users, Sessions: map[organisation.Role]*Client{}}
	made, err := a.commands().CreateWorkspace(a.t.Context(), w.Operator(), name)
	require.NoError(a.t, err)
	w.ID, w.PoolID, w.Sandbox = made.ID, made.DefaultPoolID, Line{made.SandboxLineID, made.SandboxPhone}
	for range 2 {
		w.AddLine()
	}
	w.Live = w.Key(apikey.Live, nil, apikey.Read, apikey.Send, apikey.Admin)
	w.Test = w.Key(apikey.Test, nil, apikey.Read, apikey.Send, apikey.Admin)
	w.addUsers()
	return w
}

func (w *Workspace) addUsers() {
	a := w.app
	a.t.Helper()
	known := w.Users
	w.Users = map[organisation.Role]uuid.UUID{}
	for _, role := range organisation.Roles() {
		if id, ok := known[role]; ok {
			_, err := a.commands().GrantRole(a.t.Context(), w.Operator(), id, role)
			require.NoError(a.t, err)
			w.Users[role] = id
		} else {
			w.Users[role] = w.AddUser(string(role), map[uuid.UUID]organisation.Role{w.ID: role})
		}
		w.Sessions[role] = a.As(w.Session(w.Users[role])).Header("x-workspace-id", w.ID.String())
	}
}

// AddUser creates a user with a role in each of these workspaces.
func (w *Workspace) AddUser(name string, roles map[uuid.UUID]organisation.Role) uuid.UUID {
	w.app.t.Helper()
	made, err := w.app.commands().CreateUser(w.app.t.Context(), w.Operator(), commands.CreateUser{
		FullName: "The " + name, Email: name + "@staff.example.com", Roles: roles,
	})
	require.NoError(w.app.t, err)
	return uuid.MustParse(made.Ref)
}

// AddLine creates another active line that the simulator serves.
func (w *Workspace) AddLine() Line {
	w.app.t.Helper()
	l := Line{Phone: w.app.Phone()}
	made, err := w.app.commands().ProvisionLine(w.app.t.Context(), w.Operator(), commands.ProvisionLine{Phone: l.Phone, State: line.Active})
	require.NoError(w.app.t, err)
	l.ID = made.Ref
	w.Lines = append(w.Lines, l)
	return l
}

// NewKey creates an API key. With addresses it may be used from those only.
func (w *Workspace) NewKey(env apikey.Env, addresses []string, scopes ...apikey.Scope) commands.IssuedAPIKey {
	w.app.t.Helper()
	in := commands.CreateAPIKey{Name: "test", Env: env, IPAllowlist: addresses}
	for _, s := range scopes {
		in.Scopes = append(in.Scopes, string(s))
	}
	made, err := w.app.commands().CreateAPIKey(w.app.t.Context(), w.Operator(), in)
	require.NoError(w.app.t, err)
	return made
}

// Key returns a client with a new API key.
func (w *Workspace) Key(env apikey.Env, addresses []string, scopes ...apikey.Scope) *Client {
	w.app.t.Helper()
	return w.app.As(w.NewKey(env, addresses, scopes...).Secret)
}

// Session returns a session token of a user, valid for an hour of the service's clock.
func (w *Workspace) Session(user uuid.UUID) string {
	w.app.t.Helper()
	return w.app.Sign(jwt.SigningMethodHS256, Secret, jwt.MapClaims{
		"sub": user.String(), "iss": Issuer, "aud": Audience, "iat": w.app.Clock.Now().Unix(), "exp": w.app.Clock.Now().Add(time.Hour).Unix(),
	})
}

// Sign returns a token with these claims.
func (a *App) Sign(method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	a.t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(a.t, err)
	return token
}

// Phone returns a valid number that nobody in this installation has.
func (a *App) Phone() string {
	a.nextPhone++
	return fmt.Sprintf("+1415777%04d", a.nextPhone)
}

// SandboxNumber returns a sandbox number with these last two digits (rule SND-60) that nobody in this installation
// has.
func (a *App) SandboxNumber(digits int) string {
	a.nextPhone++
	return fmt.Sprintf("+1%03d55501%02d", 200+a.nextPhone, digits)
}
