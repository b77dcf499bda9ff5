-- +goose Up

-- The webhooks process's own view of the endpoints, at its checkpoint: what is told to whom is decided with it, in the
-- order of the ledger. The failure window is that of domain/webhook.
create table webhook_endpoints (
    endpoint_id text collate "C" primary key,
    organisation_id uuid not null,
    workspace_id uuid not null,
    shard smallint not null,
    version integer not null,            -- of the endpoint's stream
    status text not null,                -- active, paused, disabled; deleted until its deliveries are gone
    changed_at timestamptz not null,     -- of the status
    events text[] not null,
    failing_since timestamptz,
    failed_attempts integer not null,
    failed_events integer not null,
    failed_first uuid,
    gone boolean not null                -- it answered 410 and is to be disabled
) with (fillfactor = 70);
create index webhook_endpoints_workspace on webhook_endpoints (workspace_id);

-- What is told, made once and shared by all endpoints: the very bytes that are signed. They hold personal data; the
-- erasure of their contact removes them.
create table webhook_events (
    id uuid primary key,                 -- receivers know it as evt_…
    subject text collate "C",
    body bytea not null,
    created_at timestamptz not null
);
create index webhook_events_subject on webhook_events (subject) where subject is not null;

-- Every delivery with its attempts. Rows come with the process's checkpoint, and change only by events of the ledger.
create table webhook_deliveries (
    id uuid primary key,
    endpoint_id text collate "C" not null,
    event_id uuid not null,
    event_type text not null,
    test boolean not null,
    replays integer not null default 0,
    status text not null,
    attempt integer not null default 0,
    status_code integer,
    latency_ms integer,
    error text,
    attempts jsonb not null default '[]',
    created_at timestamptz not null,
    delivered_at timestamptz,
    next_attempt_at timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
create index webhook_deliveries_endpoint on webhook_deliveries (endpoint_id, id);
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_attempt_at) where status = 'pending';
create index webhook_deliveries_failed on webhook_deliveries (endpoint_id, id) where status = 'failed';

-- Attempts that were begun and whose outcome is not known here yet. One that is left over from another lease was cut off.
create table webhook_begun (
    endpoint_id text collate "C" not null,
    delivery_id uuid not null,
    number integer not null,
    fence bigint not null,
    begun_at timestamptz not null,
    primary key (endpoint_id, delivery_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Attempts per endpoint and hour, for the failure rate. Tests and replays are not in it.
create table webhook_rates (
    endpoint_id text collate "C" not null,
    hour timestamptz not null,
    attempts integer not null,
    failed integer not null,
    primary key (endpoint_id, hour)
) with (fillfactor = 50);
