package commands

import (
	"ledgerline/events"
	"ledgerline/eventstore"
)

// What callers of commands say and hear in the ledger's own terms, so that they need not import it.
type (
	Actor                   = events.Actor
	Media                   = events.Media
	Guard                   = eventstore.Guard
	IdempotencyRecord       = eventstore.IdempotencyRecord // the stored answer for an idempotency key
	IdempotencyRecordExists = eventstore.IdempotencyRecordExists
)
