-- +goose Up

-- What the processes have to do: one row for each key that has something to do now or at a known time. A row's due_at
-- is a business deadline by the service's clock; lease_until and retry_at are real time, this database's, since they
-- protect against dead workers and against hammering, whatever a clock moved by hand says.
create table process_todo (
    process text collate "C" not null,
    key text collate "C" not null,
    shard smallint not null,
    due_at timestamptz not null,
    asked_at_position bigint not null,   -- the ledger position that asked last
    attempts integer not null default 0, -- failures in a row
    retry_at timestamptz,                -- after a failure: not before then
    lease_until timestamptz,             -- somebody works on it until then
    fence bigint not null default 0,     -- of the last lease
    primary key (process, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Leases are in no index, so that taking one is a heap-only update; few are out at any time. Rows that wait for a retry
-- may be many when something outside is down: they stand in an index of their own and out of the others' way.
create index process_todo_due on process_todo (process, due_at) where retry_at is null;
create index process_todo_retry on process_todo (process, retry_at) where retry_at is not null;

-- Fences come from one sequence, not from the row: a row goes away when its work is done, and the fence of the next one
-- of the same key must still be greater.
create sequence process_todo_fence;
