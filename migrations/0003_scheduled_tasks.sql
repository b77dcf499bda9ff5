-- Scheduled tasks: work of the processes that is due now or at a known time. Package processes/tasks.

-- +goose Up

-- One row for each process and key. due_at is a time of the service's clock, which may be frozen or moved. lease_until and
-- retry_at are real time, by this database's clock: they protect against dead workers and against retrying too fast.
create table scheduled_tasks (
    process text collate "C" not null,
    key text collate "C" not null,         -- names an entity, for example a contact
    shard smallint not null,               -- of the entity
    due_at timestamptz not null,
    scheduled_at_position bigint not null, -- of the latest event that scheduled the task
    failures integer not null default 0,   -- task runs that failed in a row
    retry_at timestamptz,                  -- after a failure: not before then
    lease_until timestamptz,               -- a worker holds the task until then
    fence bigint not null default 0,       -- of the last lease
    primary key (process, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- No index contains lease_until: taking a lease stays a heap-only update, and few leases exist at a time. Tasks that wait
-- for a retry can be many when an outside system is down, so they are in an index of their own.
create index scheduled_tasks_due on scheduled_tasks (process, due_at) where retry_at is null;
create index scheduled_tasks_retry on scheduled_tasks (process, retry_at) where retry_at is not null;

-- Fences come from a sequence and not from the row: a finished task's row is deleted, and the next lease of the same key
-- must still have a greater fence.
create sequence scheduled_tasks_fence;

-- The functions below work row by row, each row by its primary key. Joins would be planned by the table's statistics, which
-- are often wrong because the table is empty at one moment and full at the next: a plan made for the empty table reads all
-- of the full one for every batch. Where several rows are locked, they are locked in the order of their keys, so that no
-- two transactions can wait for each other.

-- Leases up to max_tasks due tasks of a process. Tasks to be retried and other tasks alternate, so that neither kind
-- starves the other. Tasks that another transaction has locked are skipped: whoever holds the lock wakes a runner
-- afterwards.
-- +goose StatementBegin
create function scheduled_tasks_lease(of_process text, at timestamptz, max_tasks integer, lease interval)
returns setof scheduled_tasks language plpgsql as $$
declare
    due_key text collate "C";
    leased scheduled_tasks;
begin
    for due_key in
        with retried as materialized (
            select key from scheduled_tasks
            where process = of_process and retry_at is not null and retry_at <= now() and due_at <= at
              and (lease_until is null or lease_until <= now())
            order by retry_at limit max_tasks for update skip locked
        ), fresh as materialized (
            select key from scheduled_tasks
            where process = of_process and retry_at is null and due_at <= at
              and (lease_until is null or lease_until <= now())
            order by due_at limit max_tasks for update skip locked
        )
        select key from (
            select key, row_number() over () as rank from retried union all
            select key, row_number() over () as rank from fresh
        ) due order by rank limit max_tasks
    loop
        update scheduled_tasks set lease_until = now() + lease, fence = nextval('scheduled_tasks_fence')
        where process = of_process and key = due_key
        returning * into leased;
        return next leased;
    end loop;
end $$;
-- +goose StatementEnd

-- Extends the leases that still have these fences, and returns the fences of those.
-- +goose StatementBegin
create function scheduled_tasks_renew(of_process text, keys text[], fences bigint[], lease interval)
returns setof bigint language plpgsql as $$
begin
    for i in 1 .. cardinality(keys) loop
        update scheduled_tasks set lease_until = now() + lease
        where process = of_process and key = keys[i] and fence = fences[i];
        if found then
            return next fences[i];
        end if;
    end loop;
end $$;
-- +goose StatementEnd

-- Writes the results of task runs whose lease still has the fence. A finished task is deleted; another one gives up its
-- lease and is due again at run_again, or is retried after a pause when its run failed. If the task was scheduled again since
-- it was leased (its position or due time is not the given one), it stays in any case and keeps its due time.
-- +goose StatementBegin
create function scheduled_tasks_end(of_process text, keys text[], fences bigint[], positions bigint[], dues timestamptz[],
    finished boolean[], run_again timestamptz[], failed integer[], pauses interval[])
returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(keys) loop
        if finished[i] then
            delete from scheduled_tasks
            where process = of_process and key = keys[i] and fence = fences[i]
              and scheduled_at_position = positions[i] and due_at = dues[i];
            continue when found;
        end if;
        update scheduled_tasks set
            lease_until = null,
            failures = failed[i],
            retry_at = now() + pauses[i],
            due_at = case when scheduled_at_position = positions[i] and due_at = dues[i]
                          then coalesce(run_again[i], due_at) else due_at end
        where process = of_process and key = keys[i] and fence = fences[i];
    end loop;
end $$;
-- +goose StatementEnd

-- Locks the tasks of a process with these keys, in the order of the keys.
-- +goose StatementBegin
create function scheduled_tasks_lock(of_process text, keys text[]) returns void language plpgsql as $$
declare
    k text collate "C";
begin
    for k in select u.k from unnest(keys) u (k) order by u.k collate "C" loop
        perform from scheduled_tasks where process = of_process and key = k for update;
    end loop;
end $$;
-- +goose StatementEnd

-- Deletes the tasks of a process with these keys, in the order of the keys.
-- +goose StatementBegin
create function scheduled_tasks_delete(of_process text, keys text[]) returns void language plpgsql as $$
declare
    k text collate "C";
begin
    for k in select u.k from unnest(keys) u (k) order by u.k collate "C" loop
        delete from scheduled_tasks where process = of_process and key = k;
    end loop;
end $$;
-- +goose StatementEnd
