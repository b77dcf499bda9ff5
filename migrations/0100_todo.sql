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

-- What runners do with many rows at once goes row by row inside these functions, each row by its primary key. As joins with
-- the table they would be planned by its statistics, and those of a table that is now empty and now full are wrong
-- half of the time: a plan made for an empty one then reads all of a full one for every batch.

-- Takes up to "most" due keys of a process: in turns a key after a failure and a fresh one, so that neither kind can
-- starve the other. Rows that somebody holds are skipped: whoever it is (an ask, a finish, another
-- runner) makes a runner look again afterwards.
-- +goose StatementBegin
create function process_todo_take(of_process text, at timestamptz, most integer, lease interval)
returns setof process_todo language plpgsql as $$
declare
    found_key text collate "C";
    taken process_todo;
begin
    for found_key in
        with retried as materialized (
            select key from process_todo
            where process = of_process and retry_at is not null and retry_at <= now() and due_at <= at
              and (lease_until is null or lease_until <= now())
            order by retry_at limit most for update skip locked
        ), fresh as materialized (
            select key from process_todo
            where process = of_process and retry_at is null and due_at <= at
              and (lease_until is null or lease_until <= now())
            order by due_at limit most for update skip locked
        )
        select key from (
            select key, row_number() over () as turn from retried union all
            select key, row_number() over () as turn from fresh
        ) due order by turn limit most
    loop
        update process_todo set lease_until = now() + lease, fence = nextval('process_todo_fence')
        where process = of_process and key = found_key
        returning * into taken;
        return next taken;
    end loop;
end $$;
-- +goose StatementEnd

-- Extends the leases that still have these fences, and answers the fences.
-- +goose StatementBegin
create function process_todo_renew(of_process text, keys text[], fences bigint[], lease interval)
returns setof bigint language plpgsql as $$
begin
    for i in 1 .. cardinality(keys) loop
        update process_todo set lease_until = now() + lease
        where process = of_process and key = keys[i] and fence = fences[i];
        if found then
            return next fences[i];
        end if;
    end loop;
end $$;
-- +goose StatementEnd

-- Puts down keys whose lease still has the fence. A key that is done goes away. A key that stays gives up its lease: it
-- goes on at "again", or rests for "pause" after a failure. Asked for again since it was taken (as "asked" and "due"
-- tell), it stays in any case and its deadline, which is past, is left as it is.
-- +goose StatementBegin
create function process_todo_put(of_process text, keys text[], fences bigint[], asked bigint[], dues timestamptz[],
    done boolean[], agains timestamptz[], failures integer[], pauses interval[])
returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(keys) loop
        if done[i] then
            delete from process_todo
            where process = of_process and key = keys[i] and fence = fences[i]
              and asked_at_position = asked[i] and due_at = dues[i];
            continue when found;
        end if;
        update process_todo set
            lease_until = null,
            attempts = failures[i],
            retry_at = now() + pauses[i],
            due_at = case when asked_at_position = asked[i] and due_at = dues[i]
                          then coalesce(agains[i], due_at) else due_at end
        where process = of_process and key = keys[i] and fence = fences[i];
    end loop;
end $$;
-- +goose StatementEnd
