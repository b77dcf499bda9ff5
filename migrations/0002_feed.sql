-- +goose Up

-- Who reads the ledger: projections and processes. The active revision is the one that readers see.
create table feed_consumers (
    name text collate "C" primary key,
    revision integer not null,
    program integer not null,     -- version of the program that built the revision
    changed_at timestamptz not null
);

-- How far each revision has come. A row moves in the same transaction as the rows that it stands for.
create table feed_checkpoints (
    name text collate "C" not null,
    revision integer not null,
    shard smallint not null,
    position bigint not null,
    primary key (name, revision, shard)
) with (fillfactor = 20);

-- Events that a consumer could not take. They stop nobody, and wait here for an operator.
create table feed_parked (
    name text collate "C" not null,
    shard smallint not null,
    position bigint not null,
    event_id uuid not null,
    type text not null,
    reason text not null,
    parked_at timestamptz not null,
    primary key (name, shard, position)
);

-- Moves a checkpoint if it is where the caller believes it to be, and fails with LL001 if another worker moved it
-- or another revision has taken over meanwhile.
-- +goose StatementBegin
create function feed_advance(consumer text, rev integer, sh integer, expected bigint, reached bigint) returns void
language plpgsql as $$
begin
    update feed_checkpoints set position = reached
        where name = consumer and revision = rev and shard = sh and position = expected;
    if not found then
        raise exception 'checkpoint of % moved', consumer using errcode = 'LL001';
    end if;
end $$;
-- +goose StatementEnd
