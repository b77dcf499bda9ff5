-- The ledger: an append-only record of events, and everything that must be written in the same transaction as an event.
-- Only package eventstore writes these tables.

-- +goose Up

-- One row that describes this installation.
create table ledger_meta (
    only_row boolean primary key default true check (only_row),
    shards smallint not null check (shards between 1 and 1024), -- fixed when the ledger is opened for the first time
    root_check bytea not null, -- keyed hash of the keyring's root secret: another root is refused
    created_at timestamptz not null
);

-- The head of each shard: the position of its last event. Every append locks this row, so positions have no gaps and
-- become visible in their order. A low fill factor keeps the updates within the page.
create table ledger_heads (
    shard smallint primary key,
    position bigint not null -- 0: the shard has no events
) with (fillfactor = 20);

-- The events. Rows are inserted and never updated or deleted.
create table ledger_events (
    shard smallint not null,
    position bigint not null,         -- within the shard, from 1, without gaps
    id uuid not null,
    stream text collate "C" not null, -- the aggregate that the event belongs to, for example ctc_… for a contact
    version integer not null,         -- within the stream, from 1, without gaps
    type text collate "C" not null,   -- wire name, for example contact.created
    schema smallint not null,         -- version of the wire format of this type
    organisation_id uuid not null,
    workspace_id uuid,                -- null for events of the organisation itself
    occurred_at timestamptz not null, -- by the service's clock
    actor_type text not null,         -- key, identity, user, contact, system or operator
    actor_id text not null,
    request_id text not null,
    causation_id uuid,                -- the event that led to this one; null when a request did
    correlation_id uuid not null,     -- shared by everything that one request or inbound message led to
    data json not null,               -- json and not jsonb: the hash of the event covers the exact bytes
    subject text collate "C",         -- whose key encrypts the personal data; null when there is none
    sealed bytea,                     -- the personal data, encrypted
    tag bytea not null,               -- HMAC of the event's hash, under a key of the installation's keys file
    primary key (shard, position),
    check (shard >= 0 and position > 0 and version > 0)
);
create unique index ledger_events_stream on ledger_events (stream, version);

-- Every inserted position is at most the head of its shard, and its shard has a head.
-- +goose StatementBegin
create function ledger_check_positions() returns trigger language plpgsql as $$
begin
    if exists (
        select from (select a.shard, max(a.position) as last from added a group by a.shard) x
        left join ledger_heads h on h.shard = x.shard
        where x.last > coalesce(h.position, 0)
    ) then
        raise exception 'an event has a position after the head of its shard' using errcode = 'LL003';
    end if;
    return null;
end $$;
-- +goose StatementEnd
create trigger ledger_events_positions after insert on ledger_events referencing new table as added
    for each statement execute function ledger_check_positions();

-- +goose StatementBegin
create function ledger_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are never updated or deleted', tg_table_name using errcode = 'LL004';
end $$;
-- +goose StatementEnd
create trigger ledger_events_unchanged before update or delete or truncate on ledger_events
    for each statement execute function ledger_refuse_change();

-- Claims: within a scope, a key belongs to one owner. They make names, phone numbers and the like unique.
create table ledger_claims (
    scope text collate "C" not null,
    key text collate "C" not null,
    owner text collate "C" not null,
    primary key (scope, key)
);

-- Quotas: counters with a limit. A counter is a sum over buckets of time, so its window can be fixed or rolling.
create table ledger_quotas (
    key text collate "C" not null,
    bucket timestamptz not null,
    used bigint not null,
    primary key (key, bucket)
) with (fillfactor = 70);
create index ledger_quotas_bucket on ledger_quotas (bucket);

-- Idempotency records: the stored answer for each idempotency key, committed with the events of that answer.
create table ledger_idempotency_records (
    workspace_id uuid not null,
    key text collate "C" not null,
    actor text collate "C" not null, -- the caller that used the key, as kind:id; nobody else gets the answer
    fingerprint bytea not null, -- hash of the request; another request with the same key is refused
    ref text not null,          -- id of what the request created or changed
    status smallint not null,   -- HTTP status of the answer
    body bytea,                 -- the answer's body, encrypted; null while it is not known and after an erasure
    subject text collate "C",   -- the contact whose erasure empties the body
    shard smallint not null,
    position bigint not null,   -- of the last event of the request; 0 when the request was refused
    created_at timestamptz not null,
    primary key (workspace_id, key)
);
create index ledger_idempotency_records_subject on ledger_idempotency_records (subject) where subject is not null;
-- Rows arrive in order of age and only housekeeping searches by age: a small BRIN index is enough.
create index ledger_idempotency_records_age on ledger_idempotency_records using brin (created_at);

-- The keys that encrypt personal data, one for each subject, wrapped by the installation's key. A destroyed key leaves
-- its row behind, so that it can never be created again.
create table ledger_keys (
    subject text collate "C" primary key,
    wrapped bytea,              -- null: destroyed
    destroyed_at timestamptz,
    check ((wrapped is null) = (destroyed_at is not null))
);

-- Blocks: up to 1,000 consecutive events of a shard. The blocks of a shard are the leaves of a Merkle tree (RFC 6962),
-- and each block is closed with the signed head of the tree that ends with it.
create table ledger_blocks (
    shard smallint not null,
    number bigint not null,     -- within the shard, from 1
    from_position bigint not null,
    to_position bigint not null,
    leaves bytea not null,      -- SHA-256 hashes of the events, 32 bytes each, in order of position
    events_root bytea not null, -- Merkle root of the leaves
    nodes bytea not null,       -- nodes of the tree that the block completes, 32 bytes each: its own hash, then upwards
    root bytea not null,        -- root of the tree of the blocks up to this one
    closed_at timestamptz not null,
    signature bytea not null,   -- Ed25519, of the tree head: shard, number, root, to_position and closed_at
    primary key (shard, number),
    unique (shard, to_position),
    check (number > 0 and from_position between 1 and to_position and octet_length(leaves) = 32 * (to_position - from_position + 1))
);
alter table ledger_blocks alter column leaves set storage external; -- hashes do not compress
create trigger ledger_blocks_unchanged before update or delete or truncate on ledger_blocks
    for each statement execute function ledger_refuse_change();

-- Rewinds: a node found that the history of a shard went back, because a failover or a restored backup lost events.
create table ledger_rewinds (
    id bigint generated always as identity primary key,
    shard smallint not null,
    lost_position bigint not null, -- the node had seen an event with this id at this position
    lost_event_id uuid not null,
    head bigint not null,          -- position of the shard's last event when the node had found out
    found_at timestamptz not null default clock_timestamp()
);

-- Moves the head of a shard from expected_head to new_head and checks the preconditions of a batch of appends: streams
-- are at these versions, claims and idempotency keys are free, subjects have no key yet, and no quota counter exceeds
-- what the batch leaves room for. Fails with LL002 when any of that does not hold, and with LL005 when the events with
-- seen_ids are not at seen_positions: the history went back. See optimistic.go and history.go in package eventstore.
-- +goose StatementBegin
create function ledger_check_expectation(
    of_shard integer, expected_head bigint, new_head bigint,
    streams text[], versions integer[],
    free_scopes text[], free_keys text[],
    record_workspaces uuid[], record_keys text[],
    new_subjects text[],
    quota_keys text[], quota_since timestamptz[], quota_max_used bigint[],
    seen_positions bigint[], seen_ids uuid[]
) returns void language plpgsql as $$
begin
    update ledger_heads set position = new_head where shard = of_shard and position = expected_head;
    if not found then
        raise exception 'the head has moved' using errcode = 'LL002';
    end if;
    if exists (
        select from unnest(seen_positions, seen_ids) u (position, id)
        where u.id is distinct from (select e.id from ledger_events e where e.shard = of_shard and e.position = u.position)
    ) then
        raise exception 'the history went back' using errcode = 'LL005';
    end if;
    if exists (
        select from unnest(streams, versions) u (stream, version)
        where u.version <> coalesce((select e.version from ledger_events e where e.stream = u.stream order by e.version desc limit 1), 0)
    ) or exists (
        select from unnest(free_scopes, free_keys) u (scope, key) join ledger_claims c on c.scope = u.scope and c.key = u.key
    ) or exists (
        select from unnest(record_workspaces, record_keys) u (workspace_id, key)
        join ledger_idempotency_records r on r.workspace_id = u.workspace_id and r.key = u.key
    ) or exists (
        select from ledger_keys k where k.subject = any(new_subjects)
    ) or exists (
        select from unnest(quota_keys, quota_since, quota_max_used) u (key, since, max_used)
        where u.max_used < coalesce((select sum(q.used) from ledger_quotas q where q.key = u.key and q.bucket >= u.since), 0)
    ) then
        raise exception 'a precondition does not hold' using errcode = 'LL002';
    end if;
end $$;
-- +goose StatementEnd
