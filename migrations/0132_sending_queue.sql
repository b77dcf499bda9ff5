-- +goose Up

-- Automatic texts pass everything that waits; what has to be canceled says why.
alter table sending_outbox add column automatic boolean not null default false;
alter table sending_outbox add column cancel text;

-- What is held until a line or a pool has room waits here, one row for each contact, in the order in which its first message was
-- accepted. Nothing wakes up by itself: as many as there is room for are let go, first come first.
create table sending_waiting (
    contact_id text collate "C" primary key,
    queue text collate "C" not null,
    position bigint not null
);
create index sending_waiting_queue on sending_waiting (queue, position);
