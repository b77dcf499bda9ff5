-- +goose Up

-- What this installation is. The number of shards is fixed when the first process opens the ledger.
create table ledger_meta (
    only_row boolean primary key default true check (only_row),
    shards smallint not null check (shards between 1 and 1024),
    created_at timestamptz not null
);

-- The head row of a shard is what an append locks: positions are handed out and committed in its order.
create table ledger_heads (
    shard smallint primary key,
    position bigint not null
) with (fillfactor = 20);

create table ledger_events (
    shard smallint not null,
    position bigint not null,
    id uuid not null,
    stream text collate "C" not null,
    version integer not null,
    type text collate "C" not null,
    schema smallint not null,
    organisation_id uuid not null,
    workspace_id uuid,
    occurred_at timestamptz not null,
    actor_type text not null,
    actor_id text not null,
    request_id text not null,
    causation_id uuid,
    correlation_id uuid not null,
    data json not null,          -- json, not jsonb: the very bytes are hashed
    subject text collate "C",    -- whose key seals the personal data
    sealed bytea,
    primary key (shard, position)
);
create unique index ledger_events_stream on ledger_events (stream, version);

-- Unique things: (scope, key) belongs to owner.
create table ledger_claims (
    scope text collate "C" not null,
    key text collate "C" not null,
    owner text collate "C" not null,
    primary key (scope, key)
);

-- Counters with a limit, in buckets of time.
create table ledger_quotas (
    key text collate "C" not null,
    bucket timestamptz not null,
    used bigint not null,
    primary key (key, bucket)
) with (fillfactor = 70);
create index ledger_quotas_bucket on ledger_quotas (bucket);

-- Idempotency receipts, each committed with the events it answers for.
create table ledger_receipts (
    workspace_id uuid not null,
    key text collate "C" not null,
    fingerprint bytea not null,
    ref text not null,
    status smallint not null,
    body bytea,                  -- sealed; null until the answer is known
    subject text collate "C",
    shard smallint not null,
    position bigint not null,
    created_at timestamptz not null,
    primary key (workspace_id, key)
);
create index ledger_receipts_subject on ledger_receipts (subject) where subject is not null;
create index ledger_receipts_age on ledger_receipts using brin (created_at); -- they come in order, and only the housekeeping asks

-- The keys of personal data, wrapped by the installation's key. A destroyed key stays as a tombstone, so that it can
-- never be made anew.
create table ledger_keys (
    subject text collate "C" primary key,
    wrapped bytea,
    destroyed_at timestamptz,
    check ((wrapped is null) = (destroyed_at is not null))
);

-- The notary's blocks: leaves are the hashes of the events from from_position to to_position, 32 bytes each; root is
-- their Merkle root; hash chains the block to the one before.
create table ledger_blocks (
    shard smallint not null,
    number bigint not null,
    from_position bigint not null,
    to_position bigint not null,
    leaves bytea not null,
    root bytea not null,
    previous bytea not null,
    hash bytea not null,
    closed_at timestamptz not null,
    primary key (shard, number),
    unique (shard, to_position)
);
alter table ledger_blocks alter column leaves set storage external;
