-- Scheduled tasks: work of the processes that is due now or at a known time. Package processes/tasks.

-- +goose Up

-- One row for each process and key. due_at is a time of the service's clock, which may be frozen or moved. lease_until and
-- retry_at are real time, by this database's clock: they protect against dead workers and against retrying too fast.
create table scheduled_tasks (
    process text collate "C" not null,
    key text collate "C" not null,         -- names an entity, for example a contact
    owner text collate "C" not null default '-', -- whose work it is, such as an organisation; owners take turns
    shard smallint not null,               -- of the entity
    due_at timestamptz not null,
    scheduled_at_position bigint not null, -- of the latest event that scheduled the task
    failures integer not null default 0,   -- task runs that failed in a row
    retry_at timestamptz,                  -- after a failure: not before then
    lease_until timestamptz,               -- a worker holds the task until then
    fence bigint not null default 0,       -- of the last lease
    scheduled_at timestamptz not null default now(), -- since when the task waits for its due time; by this database's clock
    primary key (process, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- No index contains lease_until: taking a lease stays a heap-only update, and few leases exist at a time. Tasks that wait
-- for a retry can be many when an outside system is down, so they are in indexes of their own. The indexes by owner serve
-- the turns of owners, when more is due than workers are free.
create index scheduled_tasks_due on scheduled_tasks (process, due_at) where retry_at is null;
create index scheduled_tasks_retry on scheduled_tasks (process, retry_at) where retry_at is not null;
create index scheduled_tasks_due_owner on scheduled_tasks (process, owner, due_at) where retry_at is null;
create index scheduled_tasks_retry_owner on scheduled_tasks (process, owner, retry_at) where retry_at is not null;

-- Fences come from a sequence and not from the row: a finished task's row is deleted, and the next lease of the same key
-- must still have a greater fence.
create sequence scheduled_tasks_fence;

-- The functions below work row by row, each row by its primary key. Joins would be planned by the table's statistics, which
-- are often wrong because the table is empty at one moment and full at the next: a plan made for the empty table reads all
-- of the full one for every batch. Where several rows are locked, they are locked in the order of their keys, so that no
-- two transactions can wait for each other.

-- Returns the keys of about max_tasks due tasks of a process, the same number for each owner, and locks them. Owners in busy
-- get nothing. retrying chooses between tasks that wait for a retry and all others. At most max_tasks owners are looked at,
-- from a random one on: each owner gets its share over several calls.
-- +goose StatementBegin
create function scheduled_tasks_fair(of_process text, at timestamptz, max_tasks integer, busy text[], retrying boolean)
returns text[] language plpgsql as $$
declare
    first text collate "C" := md5(random()::text);
    o text collate "C" := first;
    wrapped boolean := false;
    due boolean;
    owners text[] := '{}';
    share integer;
    keys text[] := '{}';
begin
    while cardinality(owners) < max_tasks loop
        if retrying then
            select t.owner into o from scheduled_tasks t
            where t.process = of_process and t.retry_at is not null and t.owner > o order by t.owner limit 1;
        else
            select t.owner into o from scheduled_tasks t
            where t.process = of_process and t.retry_at is null and t.owner > o order by t.owner limit 1;
        end if;
        if o is null then
            exit when wrapped;
            wrapped := true;
            o := '';
            continue;
        end if;
        exit when wrapped and o > first;
        continue when o = any(busy);
        if retrying then
            due := exists (select from scheduled_tasks t
                where t.process = of_process and t.retry_at is not null and t.owner = o and t.retry_at <= now());
        else
            due := exists (select from scheduled_tasks t
                where t.process = of_process and t.retry_at is null and t.owner = o and t.due_at <= at);
        end if;
        if due then
            owners := owners || o;
        end if;
    end loop;
    share := ceil(max_tasks::float8 / greatest(cardinality(owners), 1));
    foreach o in array owners loop
        if retrying then
            keys := keys || array(select s.key from (select t.key from scheduled_tasks t
                where t.process = of_process and t.retry_at is not null and t.owner = o and t.retry_at <= now() and t.due_at <= at
                  and (t.lease_until is null or t.lease_until <= now())
                order by t.retry_at limit share for update skip locked) s);
        else
            keys := keys || array(select s.key from (select t.key from scheduled_tasks t
                where t.process = of_process and t.retry_at is null and t.owner = o and t.due_at <= at
                  and (t.lease_until is null or t.lease_until <= now())
                order by t.due_at limit share for update skip locked) s);
        end if;
    end loop;
    return keys;
end $$;
-- +goose StatementEnd

-- Leases up to max_tasks due tasks of a process, but none of the owners in busy. When more are due, owners take turns;
-- otherwise the tasks that have been due for longest come first. Tasks to be retried and other tasks alternate, so that
-- neither kind starves the other. Tasks that another transaction has locked are skipped: whoever holds the lock wakes
-- a runner afterwards. waited is how long a task has been due, in seconds by this database's clock. more says that more
-- tasks may be due.
-- +goose StatementBegin
create function scheduled_tasks_lease(of_process text, at timestamptz, max_tasks integer, lease interval, busy text[])
returns table (key text, owner text, shard smallint, fence bigint, scheduled_at_position bigint, due_at timestamptz,
    failures integer, waited double precision, more boolean) language plpgsql as $$
#variable_conflict use_column
declare
    due_key text collate "C";
    due_since timestamptz;
    fresh text[];
    retried text[];
begin
    more := cardinality(busy) > 0;
    if not more then
        retried := array(select s.key from (select t.key from scheduled_tasks t
            where t.process = of_process and t.retry_at is not null and t.retry_at <= now() and t.due_at <= at
              and (t.lease_until is null or t.lease_until <= now())
            order by t.retry_at limit max_tasks + 1 for update skip locked) s);
        fresh := array(select s.key from (select t.key from scheduled_tasks t
            where t.process = of_process and t.retry_at is null and t.due_at <= at
              and (t.lease_until is null or t.lease_until <= now())
            order by t.due_at limit max_tasks + 1 for update skip locked) s);
        more := cardinality(retried) + cardinality(fresh) > max_tasks;
    end if;
    if more then
        retried := scheduled_tasks_fair(of_process, at, max_tasks, busy, true);
        fresh := scheduled_tasks_fair(of_process, at, max_tasks, busy, false);
    end if;
    for due_key in
        select k from (
            select k, n from unnest(retried) with ordinality r (k, n) union all
            select k, n from unnest(fresh) with ordinality f (k, n)
        ) due order by n limit max_tasks
    loop
        select greatest(t.due_at, t.scheduled_at, t.retry_at) into due_since
        from scheduled_tasks t where t.process = of_process and t.key = due_key;
        update scheduled_tasks t set lease_until = now() + lease, fence = nextval('scheduled_tasks_fence')
        where t.process = of_process and t.key = due_key
        returning t.key, t.owner, t.shard, t.fence, t.scheduled_at_position, t.due_at, t.failures
        into key, owner, shard, fence, scheduled_at_position, due_at, failures;
        waited := greatest(extract(epoch from now() - due_since), 0);
        return next;
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
            scheduled_at = now(),
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
