-- Carriers: what the carrier adapters remember, each in a schema of its own. Nothing else reads or writes these tables.

-- +goose Up

-- The simulator stands for an outside system, so its memory survives the process that it runs in.
create schema simulator;

-- Messages that were given to the simulator. A script decides by the recipient's number what becomes of each. A message that
-- falls back to SMS is another row with a script of its own.
create table simulator.messages (
    message_id text collate "C" not null,
    channel text collate "C" not null,   -- chat or sms
    carrier_id text not null,            -- the simulator's id of the message
    script text not null,
    calls integer not null,              -- of Send
    refuses integer not null,            -- how many of the next calls are refused for now
    sends integer not null,              -- calls that were accepted: more than one is a message that arrived twice
    accepted_at timestamptz not null,    -- of the first accepted call
    step smallint not null default 0,    -- the next one of the script
    due_at timestamptz,                  -- of the next step, by the service's clock; null when the script is over
    failures integer not null default 0, -- reports in a row that the service did not accept
    retry_at timestamptz,                -- after a failure, in real time
    sealed bytea,                        -- numbers and text for replies, encrypted; null once the script needs them no more
    given_up integer,                    -- attempts up to this one are never accepted: a lookup said so
    primary key (message_id, channel)
);
create index simulator_messages_due on simulator.messages (due_at) where due_at is not null and sends > 0;

-- Stores how far scripts have come, row by row by primary key, so that the plan does not depend on the table's statistics.
-- +goose StatementBegin
create function simulator.advance(ids text[], channels text[], steps smallint[], dues timestamptz[], keep boolean[], failed integer[],
    pauses interval[])
returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(ids) loop
        update simulator.messages set step = steps[i], due_at = dues[i], failures = failed[i], retry_at = now() + pauses[i],
            sealed = case when keep[i] then sealed end
        where message_id = ids[i] and channel = channels[i];
    end loop;
end $$;
-- +goose StatementEnd

-- The BlueBubbles adapter: which messages on a BlueBubbles server are ours, and how far each server was read. There is no
-- personal data in it. All times are the database's own, because the servers run in real time whatever the service's clock.
create schema bluebubbles;

-- Parts of our messages: a message is sent as one BlueBubbles message for each text and attachment.
create table bluebubbles.parts (
    message_id text collate "C" not null,
    part smallint not null,              -- from 0
    last boolean not null,               -- the last part: its receipts are the receipts of the message
    line_id text collate "C" not null,
    temp_guid text collate "C" not null, -- our name for the part, until the server has given it an id
    guid text collate "C",               -- the server's id; null until the server is known to have accepted the part
    begun_at timestamptz not null,       -- of the last try
    lost integer not null default 0,     -- tries that the server turned out not to have accepted
    reported smallint not null default 0,    -- the highest receipt that was reported: 1 delivered, 2 read, 3 failed
    checked_at timestamptz,              -- when the server was last asked about the part
    primary key (message_id, part)
);
create unique index bluebubbles_parts_guid on bluebubbles.parts (line_id, guid) where guid is not null;
create unique index bluebubbles_parts_temp on bluebubbles.parts (line_id, temp_guid);
create index bluebubbles_parts_open on bluebubbles.parts (line_id, checked_at nulls first) where reported < 2;
create index bluebubbles_parts_old on bluebubbles.parts (begun_at);

-- How far the messages of each line's server were read.
create table bluebubbles.polls (
    line_id text collate "C" primary key,
    polled_at timestamptz not null,      -- when the last poll began
    read_at timestamptz,                 -- when the last poll began that read all messages there were
    since bigint not null,               -- Unix milliseconds: when the line became ours; older messages are ignored
    seen bigint not null                 -- Unix milliseconds by the server's clock: messages up to here were read
);
