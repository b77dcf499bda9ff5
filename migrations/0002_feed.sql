-- The feed: who reads the events of the ledger, and how far each reader has come. Package eventstore/feed.

-- +goose Up

-- Consumers: projections and processes. Readers of a projection see the tables of its active revision.
create table feed_consumers (
    name text collate "C" primary key,
    revision integer not null,    -- the active one
    program integer not null,     -- version of the consumer's code that built the revision
    changed_at timestamptz not null
);

-- Checkpoints: the position up to which a revision of a consumer has applied a shard, and the id of the event there. A
-- checkpoint moves in the same transaction as the rows that the consumer writes.
create table feed_checkpoints (
    name text collate "C" not null, -- of the consumer
    revision integer not null,
    shard smallint not null,
    position bigint not null,
    event_id uuid,                  -- null: the position is 0
    primary key (name, revision, shard),
    check ((position = 0) = (event_id is null))
) with (fillfactor = 20);

-- A checkpoint is at most the head of its shard and names the event at its position, so that no consumer writes what it
-- read before the history went back.
-- +goose StatementBegin
create function feed_check_checkpoint() returns trigger language plpgsql as $$
begin
    if new.position > 0 and not exists (
        select from ledger_events e join ledger_heads h on h.shard = e.shard and h.position >= e.position
        where e.shard = new.shard and e.position = new.position and e.id = new.event_id
    ) then
        raise exception 'the ledger does not have the event at the checkpoint of %', new.name using errcode = 'LL005';
    end if;
    return new;
end $$;
-- +goose StatementEnd
create trigger feed_checkpoints_history before insert or update on feed_checkpoints
    for each row execute function feed_check_checkpoint();

-- Parked events: a consumer could not apply them and skipped them. An operator retries or removes them.
create table feed_parked (
    name text collate "C" not null, -- of the consumer
    shard smallint not null,
    position bigint not null,
    event_id uuid not null,
    type text not null,
    reason text not null,           -- the error
    parked_at timestamptz not null,
    primary key (name, shard, position)
);

-- Moves a checkpoint from expected to reached, where the event reached_id is. Fails with LL001 if the checkpoint is not at
-- expected: another worker has moved it, or the revision is no longer there. Fails with LL005 if the ledger does not have
-- that event there.
-- +goose StatementBegin
create function feed_advance_checkpoint(consumer text, of_revision integer, of_shard integer, expected bigint, reached bigint, reached_id uuid)
returns void language plpgsql as $$
begin
    update feed_checkpoints set position = reached, event_id = reached_id
        where name = consumer and revision = of_revision and shard = of_shard and position = expected;
    if not found then
        raise exception 'checkpoint of % moved', consumer using errcode = 'LL001';
    end if;
end $$;
-- +goose StatementEnd
