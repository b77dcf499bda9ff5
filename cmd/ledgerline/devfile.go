package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// devFile is dev.json: addresses, keys, sessions and ids of a running dev. It exists as soon as the dev answers.
type devFile struct {
	BaseURL        string               `json:"base_url"`
	ReadURL        string               `json:"read_url"`
	WriteURL       string               `json:"write_url"`
	OrganisationID uuid.UUID            `json:"organisation_id"`
	WorkspaceID    uuid.UUID            `json:"workspace_id"`
	Keys           devKeys              `json:"keys"`
	Sessions       map[string]string    `json:"sessions"` // by role
	Users          map[string]uuid.UUID `json:"users"`    // by role
	TeamID         uuid.UUID            `json:"team_id"`
	PoolID         string               `json:"pool_id"`
	Lines          devLines             `json:"lines"`
	Workspaces     []devWorkspace       `json:"workspaces"`
}

// devKeys are secrets of API keys with all scopes.
type devKeys struct {
	Live string `json:"live"`
	Test string `json:"test"`
}

type devLines struct {
	Sandbox devLine   `json:"sandbox"`
	Live    []devLine `json:"live"`
}

type devLine struct {
	ID    string `json:"id"`
	Phone string `json:"phone"`
}

// devWorkspace is a workspace besides the main one.
type devWorkspace struct {
	OrganisationID uuid.UUID `json:"organisation_id"`
	WorkspaceID    uuid.UUID `json:"workspace_id"`
	Keys           devKeys   `json:"keys"`
}

func (f *devFile) write(d dataDir) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("write dev.json: %w", err)
	}
	return replaceSecret(d.devFile(), append(text, '\n'))
}

func readDevFile(d dataDir) (*devFile, error) {
	text, err := os.ReadFile(d.devFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: no dev has been started here; `make run` starts one", d.devFile())
	}
	if err != nil {
		return nil, fmt.Errorf("read dev.json: %w", err)
	}
	var f devFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read dev.json: %w", err)
	}
	return &f, nil
}

// devNow asks a running dev for the time of its clock, which may be stopped or moved.
func devNow(ctx context.Context, d dataDir) (time.Time, error) {
	f, err := readDevFile(d)
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.BaseURL+"/dev/clock", http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the dev for its time: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the dev for its time: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Now time.Time `json:"now"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Now.IsZero() {
		return time.Time{}, errors.Join(fmt.Errorf("the dev does not answer with its time: status %d", response.StatusCode), err)
	}
	return answer.Now, nil
}

// urlOf is the URL of a listener from this machine.
func urlOf(listener net.Listener) string {
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "http://" + listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// devEnvCommand prints dev.json as shell variables.
type devEnvCommand struct {
	Data string `help:"Data directory of the dev (default: ${default})." default:"./.ledgerline" placeholder:"DIR"`
}

// Run implements the command. It waits while a dev starts.
func (c *devEnvCommand) Run(ctx context.Context, con *console) error {
	if err := (&installation{Data: c.Data}).waitForDev(ctx, con); err != nil {
		return err
	}
	f, err := readDevFile(dataDir(c.Data))
	if err != nil {
		return err
	}
	variables := [][2]string{
		{"LL_URL", f.BaseURL},
		{"LL_KEY", f.Keys.Live},
		{"LL_TEST_KEY", f.Keys.Test},
		{"LL_ORGANISATION", f.OrganisationID.String()},
		{"LL_WORKSPACE", f.WorkspaceID.String()},
		{"LL_LINE", f.Lines.Live[0].Phone},
		{"LL_SANDBOX_LINE", f.Lines.Sandbox.Phone},
	}
	for _, role := range slices.Sorted(maps.Keys(f.Users)) {
		variables = append(variables, [2]string{"LL_USER_" + strings.ToUpper(role), f.Users[role].String()})
	}
	for _, v := range variables { // they need no escaping: ids, numbers and letters
		if _, err := fmt.Fprintf(con.out, "export %s='%s'\n", v[0], v[1]); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}
