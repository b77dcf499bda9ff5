-- Webhooks: the endpoints of customers, what is delivered to them, and every delivery with its attempts. The webhooks
-- process writes these tables at its checkpoint, from events alone.

-- +goose Up

-- Endpoints, as they are at the process's checkpoint: which events go to which endpoint is decided with them, in the order
-- of the ledger. The failure window is the one of domain/webhook.
create table webhook_endpoints (
    endpoint_id text collate "C" primary key,
    organisation_id uuid not null,
    workspace_id uuid not null,
    shard smallint not null,
    version integer not null,        -- of the endpoint's stream
    status text not null,            -- active, paused or disabled; deleted while deliveries of it are still stored
    changed_at timestamptz not null, -- of the status
    events text[] not null,          -- types of events that are delivered
    failing_since timestamptz,       -- begin of the failure window; null: the last attempt succeeded
    failed_attempts integer not null, -- in the failure window
    failed_events integer not null,  -- distinct events in the failure window, counted up to 2
    failed_first uuid,               -- the first event in the failure window
    gone boolean not null            -- the receiver answered 410 (Gone), so the endpoint is to be disabled
) with (fillfactor = 70);
create index webhook_endpoints_workspace on webhook_endpoints (workspace_id);

-- Payloads, made once and shared by all endpoints: exactly the bytes that are signed. They hold personal data; the erasure
-- of their contact deletes them.
create table webhook_events (
    id uuid primary key,             -- receivers know it as evt_…
    subject text collate "C",        -- the contact whose personal data the payload holds
    body bytea not null,
    created_at timestamptz not null
);
create index webhook_events_subject on webhook_events (subject) where subject is not null;

-- Deliveries: one event on its way to one endpoint, with its attempts.
create table webhook_deliveries (
    id uuid primary key,
    endpoint_id text collate "C" not null,
    event_id uuid not null,
    event_type text not null,
    test boolean not null,           -- a customer asked for an example
    replays integer not null default 0, -- how often the delivery was repeated by hand
    range_replays integer not null default 0, -- how often the delivery was repeated with others of a range
    status text not null,            -- pending, succeeded or failed
    attempt integer not null default 0, -- number of the last attempt
    status_code integer,             -- HTTP status of the last attempt; null: no answer
    latency_ms integer,              -- of the last attempt
    error text,                      -- of the last attempt; null: it succeeded
    attempts jsonb not null default '[]', -- all of them
    created_at timestamptz not null,
    delivered_at timestamptz,
    next_attempt_at timestamptz
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);
create index webhook_deliveries_endpoint on webhook_deliveries (endpoint_id, id);
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_attempt_at) where status = 'pending';
create index webhook_deliveries_failed on webhook_deliveries (endpoint_id, id) where status = 'failed';

-- Attempts that were started and whose result is not in the ledger yet. One of an earlier lease was interrupted by
-- a crash.
create table webhook_started_attempts (
    endpoint_id text collate "C" not null,
    delivery_id uuid not null,
    number integer not null,         -- of the attempt
    fence bigint not null,           -- of the lease of the worker that started it
    started_at timestamptz not null,
    primary key (endpoint_id, delivery_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Attempts for each endpoint and hour, for the failure rate. Tests and replays do not count.
create table webhook_rates (
    endpoint_id text collate "C" not null,
    hour timestamptz not null,
    attempts integer not null,
    failed integer not null,
    primary key (endpoint_id, hour)
) with (fillfactor = 50);
