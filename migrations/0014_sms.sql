-- SMS: what the adapter of the SMS provider remembers. There is no personal data in it. All times are the database's own,
-- because the provider runs in real time whatever the service's clock.

-- +goose Up

create schema twilio;

-- Our messages at the provider. The provider gives a message its id (sid) with its answer.
create table twilio.messages (
    message_id text collate "C" primary key,
    connection_id text collate "C" not null,
    sid text collate "C",            -- null until the provider is known to have accepted the message
    first_at timestamptz not null,   -- of the first attempt
    begun_at timestamptz not null    -- of the last attempt
);
create unique index twilio_messages_sid on twilio.messages (connection_id, sid) where sid is not null;
create index twilio_messages_old on twilio.messages (begun_at);

-- Status callbacks that cannot be recorded yet: they came before the answer that has the id of the message, or the ledger
-- was out of reach.
create table twilio.callbacks (
    connection_id text collate "C" not null,
    sid text collate "C" not null,
    status text collate "C" not null, -- as the provider calls it
    error_code text collate "C" not null,
    received_at timestamptz not null default now(),
    check_at timestamptz not null default now(),
    primary key (connection_id, sid, status)
);
create index twilio_callbacks_check on twilio.callbacks (check_at);
