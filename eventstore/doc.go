// Package eventstore is the ledger: the only code that writes events, and with them what must hold at the same
// moment (stream versions, claims, quotas, idempotency receipts, the keys of personal data).
//
// Positions are per shard, gapless and in commit order: one committer per process and shard drains the waiting
// appends into one transaction that holds the shard's head row. A reader therefore tails with
// `shard = $1 and position > $2 order by position` and can never miss an event.
package eventstore
