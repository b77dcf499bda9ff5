package commands

import (
	"ledgerline/events"
	"ledgerline/eventstore"
)

// What callers of commands say and hear in the ledger's own terms, so that they need not import it.
type (
	Actor         = events.Actor
	Media         = events.Media
	Guard         = eventstore.Guard
	Promise       = eventstore.Receipt // the idempotency receipt of a request
	ReceiptExists = eventstore.ReceiptExists
)
