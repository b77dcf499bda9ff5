package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// idempotencyRecords implements httpapi.IdempotencyRecords: it stores the answers of writes in the ledger.
type idempotencyRecords struct {
	app    *commands.App
	ledger *eventstore.Ledger
	log    *slog.Logger
}

// Find implements httpapi.IdempotencyRecords.
func (r idempotencyRecords) Find(ctx context.Context, workspace uuid.UUID, key string) (*httpapi.IdempotencyRecord, error) {
	found, err := r.ledger.FindIdempotencyRecord(ctx, workspace, key)
	if err != nil || found == nil {
		return nil, err
	}
	return &httpapi.IdempotencyRecord{
		Actor: found.Actor, Fingerprint: found.Fingerprint, Status: found.Status, Ref: found.Ref, Body: found.Body, Position: found.Position, Shard: found.Shard,
	}, nil
}

// SaveRefusal implements httpapi.IdempotencyRecords.
func (r idempotencyRecords) SaveRefusal(ctx context.Context, caller auth.Caller, key string, fingerprint []byte, answer httpapi.IdempotencyRecord) error {
	err := r.app.StoreRefusal(ctx, commands.Request{
		Organisation: caller.OrganisationID, Workspace: caller.WorkspaceID, Actor: events.Actor{Type: "system"}, RequestID: caller.RequestID,
		Idempotency: &eventstore.IdempotencyRecord{
			Workspace: caller.KeyScope(), Key: key, Actor: caller.Actor(), Fingerprint: fingerprint, Status: answer.Status, Body: answer.Body,
		},
	})
	if exists := (*eventstore.IdempotencyRecordExists)(nil); errors.As(err, &exists) {
		return fmt.Errorf("%w: %w", httpapi.ErrIdempotencyKeyUsed, err)
	}
	return err
}

// AddBody implements httpapi.IdempotencyRecords.
func (r idempotencyRecords) AddBody(ctx context.Context, workspace uuid.UUID, actor, key string, body []byte) {
	if err := r.ledger.CompleteIdempotencyRecord(ctx, workspace, actor, key, "", body); err != nil {
		r.log.Warn("service: the answer of a write was not stored; a retry builds it again", "error", err)
	}
}
