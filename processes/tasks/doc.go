// Package tasks runs scheduled tasks: work that a process has to do for a key, now or at a known time.
//
// A process reads the events of the ledger as a consumer of a feed and schedules tasks. A [Runner] runs the tasks that
// are due: the process's function loads the present state from the ledger, acts (sends a message, posts a webhook), and
// appends what came of it.
//
// # One row for each key
//
// A scheduled task is a row of the table scheduled_tasks. Its primary key is the name of the process and a key, which
// names an entity: a contact, a line, a webhook endpoint. Whatever happens to the entity, it has at most one task in a
// process, and at most one worker runs that task at a time. [Schedule] inserts the row, or merges into the row that is
// there: the earlier due time and the later ledger position win. A process schedules tasks in the transaction that also
// moves its checkpoint, so every event schedules its task exactly once. Processes have no replay: an effect is never
// repeated.
//
// # Due times
//
// A due time is a time of the service's clock, which can be frozen and moved. No goroutine sleeps until a due time: the
// runner asks for rows whose due time has passed, and keeps one timer of that clock for the next one.
//
// # Leases and fences
//
// A runner takes a task by leasing its row. Leases are real time, by the database's clock: they protect against workers
// that die, whatever the service's clock says. The runner renews the leases of running tasks. When a lease could not be
// renewed in time, the context of the task run is cancelled with [ErrLeaseLost], because another node may have leased
// the task already. Each lease has a fence: a number that is greater than that of every earlier lease. Renewing a lease
// and writing the result of a task run take effect only while the row still has the fence of that lease, so a worker
// that continues after its lease has expired changes nothing.
//
// # Results
//
// A task run ends with [Finished], [RunAgain] or an error. Finished removes the row only if nothing scheduled the key
// again since the lease was taken: if the row's due time or position has changed, the row stays and is due. For the
// same reason RunAgain sets the due time only if nothing scheduled the key meanwhile. After an error the task is
// retried after a pause in real time, and scheduling it again does not shorten the pause.
//
// [Postpone] is for work that something outside keeps from being done: the task runs again after a pause in real time,
// and has not failed.
//
// # Outside systems and owners
//
// A task run that waits for an outside system gives its worker to another task meanwhile ([Outside]), so that systems
// that hang do not occupy the workers. Each task has an owner. When more tasks are due than workers are free, owners
// take turns, and none has more than its share of the task runs of a node.
//
// A task may therefore run with nothing left to do, or run again for work that is done. The function that runs it
// decides by the ledger and never by the row.
//
// # Wake-ups
//
// A runner that knows of no due task does not ask the database. The code that schedules tasks wakes the runner after
// its transaction has committed: [Runner.Wake], or [Wakeups] for a feed consumer. A wake-up is an optimisation within
// one node. When it is lost, or the runner is on another node, the runner finds the task at its next poll.
package tasks
