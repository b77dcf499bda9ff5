-- Outreach: whom a running outreach still has to write to, and its messages that have not left. Package processes/outreach;
-- the first table is filled and emptied by its task, the second by its consumer from events, with its checkpoint.

-- +goose Up

-- The audience of an outreach, fixed when it starts, without those whose turn has come.
create table outreach_recipients (
    outreach_id uuid not null,
    number bigint not null,                 -- in the order of the audience
    contact_id text collate "C" not null,
    primary key (outreach_id, number)
);

-- Messages that were accepted and have neither left nor failed.
create table outreach_open (
    message_id text collate "C" primary key,
    outreach_id uuid not null
);
create index outreach_open_outreach on outreach_open (outreach_id, message_id);
