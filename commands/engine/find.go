package engine

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/domain/identity"
	"ledgerline/domain/number"
	"ledgerline/domain/organisation"
)

// Organisation loads the request's organisation; not_found when there is none.
func (u *Unit) Organisation(ctx context.Context) (*Aggregate[organisation.Organisation], error) {
	org, err := Load(ctx, u, u.Engine.Organisations, organisation.Stream(u.Request.Organisation))
	if err == nil && !org.State.Exists() {
		err = NotFound("organisation")
	}
	return org, err
}

// Workspace loads a workspace of the request's organisation; not_found when there is none.
func (u *Unit) Workspace(ctx context.Context, id uuid.UUID) (*Aggregate[organisation.Workspace], error) {
	ws, err := Load(ctx, u, u.Engine.Workspaces, organisation.WorkspaceStream(id))
	if err == nil && (!ws.State.Exists() || ws.State.Organisation != u.Request.Organisation) {
		err = NotFound("workspace")
	}
	return ws, err
}

// Number is a phone number within an organisation, with the keyed hash that names its stream.
type Number struct {
	*Aggregate[number.Number]
	Hash string
}

// Number loads a phone number (E.164) of the request's organisation.
func (u *Unit) Number(ctx context.Context, e164 string) (Number, error) {
	return u.NumberByHash(ctx, u.Engine.Ledger.NumberHash(u.Request.Organisation, e164))
}

// NumberByHash loads a phone number by its keyed hash.
func (u *Unit) NumberByHash(ctx context.Context, hash string) (Number, error) {
	g, err := Load(ctx, u, u.Engine.Numbers, number.Stream(hash))
	return Number{g, hash}, err
}

// AllowedLines returns a function that reports whether the sender of a message may send from a line. A service identity
// may be restricted to some lines. A nil identityID stands for any other sender, which may use all lines.
func (u *Unit) AllowedLines(ctx context.Context, identityID *string) (func(lineID string) bool, error) {
	if identityID == nil {
		return func(string) bool { return true }, nil
	}
	i, err := u.Identity(ctx, *identityID)
	if err != nil {
		return nil, err
	}
	return i.State.MaySendFrom, nil
}

// Identity loads a service identity by the id that a message names.
func (u *Unit) Identity(ctx context.Context, identityID string) (*Aggregate[identity.Identity], error) {
	id, err := uuid.Parse(identityID)
	if err != nil {
		return nil, fmt.Errorf("commands: a message's identity: %w", err)
	}
	return Load(ctx, u, u.Engine.Identities, identity.Stream(id))
}
