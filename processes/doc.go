// Package processes holds what the service does without a request: it sends messages, opens snoozed conversations,
// judges lines, imports contacts, posts webhooks.
//
// A process is a consumer of the feed of events. For an event that calls for work it schedules a task (package tasks)
// in the transaction that moves its checkpoint. A runner runs the due tasks: it loads the present state from the
// ledger, acts through an adapter outside of any transaction, and appends what came of it. A process has no replay, so
// an effect is never repeated because read models are built anew.
package processes
