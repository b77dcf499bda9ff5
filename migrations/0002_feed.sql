-- The feed: who reads the events of the ledger, and how far each reader has come. Package eventstore/feed.

-- +goose Up

-- Consumers: projections and processes. Readers of a projection see the tables of its active revision.
create table feed_consumers (
    name text collate "C" primary key,
    revision integer not null,    -- the active one
    program integer not null,     -- version of the consumer's code that built the revision
    changed_at timestamptz not null
);

-- Checkpoints: the position up to which a revision of a consumer has applied a shard. A checkpoint moves in the same
-- transaction as the rows that the consumer writes.
create table feed_checkpoints (
    name text collate "C" not null, -- of the consumer
    revision integer not null,
    shard smallint not null,
    position bigint not null,
    primary key (name, revision, shard)
) with (fillfactor = 20);

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

-- Moves a checkpoint from expected to reached. Fails with LL001 if it is not at expected: another worker has moved it, or
-- the revision is no longer there.
-- +goose StatementBegin
create function feed_advance_checkpoint(consumer text, of_revision integer, of_shard integer, expected bigint, reached bigint) returns void
language plpgsql as $$
begin
    update feed_checkpoints set position = reached
        where name = consumer and revision = of_revision and shard = of_shard and position = expected;
    if not found then
        raise exception 'checkpoint of % moved', consumer using errcode = 'LL001';
    end if;
end $$;
-- +goose StatementEnd
