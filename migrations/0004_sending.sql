-- Sending: the messages that have to be brought to a carrier, and those of them that wait for the capacity of lines. Package
-- processes/dispatch; its consumer writes both tables from events, with its checkpoint, and no other code writes them.

-- +goose Up

-- Messages on their way to a carrier, in the order of their positions.
create table sending_outbox (
    message_id text collate "C" primary key,
    contact_id text collate "C" not null,
    workspace_id uuid not null,
    shard smallint not null,
    position bigint not null,                 -- of the event that accepted the message
    automatic boolean not null default false, -- an automatic text, which overtakes deferred messages
    cancel text,                              -- the error code with which the message is to fail; null: it is not
    organisation_id uuid not null,
    deferred text collate "C",                -- reason of the last deferral; null: none
    line_id text collate "C",                 -- the line that the message was routed to; null: none
    outreach boolean not null default false,  -- a message of an outreach, which lets all others go first
    by_sms boolean not null default false     -- the message goes by an SMS connection, in a task of its own
);
create index sending_outbox_contact on sending_outbox (contact_id, position);
create index sending_outbox_automatic on sending_outbox (workspace_id) where automatic;
-- When a rule is loosened, only the messages that it deferred are evaluated again.
create index sending_outbox_deferred on sending_outbox (organisation_id, deferred) where deferred is not null;
-- When a line changes, the messages that were routed to it are evaluated again.
create index sending_outbox_line on sending_outbox (line_id) where line_id is not null;

-- The messages that wait for capacity: one row (queue entry) for each. Entries of a workspace with the same wants_key want
-- the same capacity, and get it in the order of their ranks.
create table capacity_queue (
    message_id text collate "C" primary key,
    contact_id text collate "C" not null,
    workspace_id uuid not null,
    wants_key bytea not null,       -- hash of wants
    wants text not null,            -- the wanted capacity (JSON), as in the event message.deferred
    not_before timestamptz not null, -- end of the contact's quiet hours, before which it gets no capacity; 1970: at once
    rank bigint not null            -- the position of the event that accepted the message; for outreach 2^62 more
);
create index capacity_queue_order on capacity_queue (workspace_id, wants_key, not_before, rank);
