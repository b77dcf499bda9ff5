-- Sending: the messages that the sending process still has to bring to a carrier, and the contacts that wait for capacity
-- of a line or pool.

-- +goose Up

-- Messages on their way to a carrier, in the order of their positions. Rows are inserted and deleted with the process's
-- checkpoint.
create table sending_outbox (
    message_id text collate "C" primary key,
    contact_id text collate "C" not null,
    workspace_id uuid not null,
    shard smallint not null,
    position bigint not null,                -- of the event that accepted the message
    automatic boolean not null default false, -- an automatic text, which overtakes deferred messages
    cancel text,                             -- why the message is to be cancelled; null: it is not
    organisation_id uuid not null,
    held text collate "C"                    -- reason for which the message is deferred; null: it is not
);
create index sending_outbox_contact on sending_outbox (contact_id, position);
create index sending_outbox_automatic on sending_outbox (workspace_id) where automatic;
-- When a limit is loosened, only the messages that it deferred are evaluated again.
create index sending_outbox_held on sending_outbox (organisation_id, held) where held is not null;

-- Contacts whose first message waits for capacity: one row for each contact, in FIFO order by position.
create table sending_waiting (
    contact_id text collate "C" primary key,
    queue text collate "C" not null,         -- key of the line or pool
    position bigint not null,                -- of the event that accepted the contact's first waiting message
    not_before timestamptz,                  -- end of the contact's quiet hours
    -- waiting: in the queue; going: released, its worker evaluates it; quiet: in quiet hours; unfit: the free capacity is of
    -- no use to it.
    stage text collate "C" not null default 'waiting' check (stage in ('waiting', 'going', 'quiet', 'unfit')),
    judged_at bigint,                        -- position in the ledger at which the stage was found
    elsewhere text collate "C" not null default '' -- keys of other queues whose capacity would do, separated by spaces
);
create index sending_waiting_queue on sending_waiting (queue, stage, position);
create index sending_waiting_resting on sending_waiting (queue, not_before) where not_before is not null;
create index sending_waiting_elsewhere on sending_waiting (queue, elsewhere, position) where stage = 'waiting' and elsewhere <> '';
create index sending_waiting_judged on sending_waiting (queue, judged_at) where stage = 'unfit';
