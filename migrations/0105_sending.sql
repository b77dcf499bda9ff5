-- +goose Up

-- What the sending process still has to bring to a carrier, in the order in which it was accepted. Rows come and go
-- with the process's checkpoint.
create table sending_outbox (
    message_id text collate "C" primary key,
    contact_id text collate "C" not null,
    workspace_id uuid not null,
    shard smallint not null,
    position bigint not null
);
create index sending_outbox_contact on sending_outbox (contact_id, position);
create index sending_outbox_workspace on sending_outbox (workspace_id);
