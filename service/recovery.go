package service

import (
	"context"
	"time"

	"ledgerline/processes/recovery"
)

// StartRecovery keeps messages from leaving on every node, and has carriers read again from a time on. Whatever finds
// that the history of the ledger went back calls it; it returns recovery.ErrActive when a recovery is under way. The
// node needs carriers: one of the roles write, read and process.
func (n *Node) StartRecovery(ctx context.Context, since time.Time, reason string) error {
	return recovery.Start(ctx, n.Ledger, n.carriers, since, reason)
}

// Recovery returns the report of the latest recovery; nil when there was none.
func (n *Node) Recovery(ctx context.Context) (*recovery.Report, error) {
	return recovery.ReadReport(ctx, n.Ledger, n.carriers)
}

// ReleaseRecovery lets messages leave again.
func (n *Node) ReleaseRecovery(ctx context.Context) error { return recovery.Release(ctx, n.Ledger) }
