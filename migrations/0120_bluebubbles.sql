-- +goose Up

-- What the BlueBubbles adapter remembers: which messages on a server are ours, and how far each server was read. There is
-- no personal data in it. All times are the database's own: the servers live in real time, whatever the service's clock.
create schema bluebubbles;

-- A message of ours is sent as one message per text and attachment, its parts.
create table bluebubbles.parts (
    message_id text collate "C" not null,
    part smallint not null,
    last boolean not null,               -- of its message: receipts for it are receipts for the message
    line_id text collate "C" not null,
    temp_guid text collate "C" not null, -- what it is called until the server has an id for it
    guid text collate "C",               -- the server's id; null while it is not known to have been taken
    begun_at timestamptz not null,       -- when it was last tried
    lost integer not null default 0,     -- how often it turned out not to have been taken
    told smallint not null default 0,    -- the highest receipt that was reported: 1 delivered, 2 read, 3 failed
    checked_at timestamptz,              -- when the server was last asked about it
    primary key (message_id, part)
);
create unique index bluebubbles_parts_guid on bluebubbles.parts (line_id, guid) where guid is not null;
create unique index bluebubbles_parts_temp on bluebubbles.parts (line_id, temp_guid);
create index bluebubbles_parts_open on bluebubbles.parts (line_id, checked_at nulls first) where told < 2;
create index bluebubbles_parts_old on bluebubbles.parts (begun_at);

-- How far the messages of a line's server have been read, and by whom it is read now.
create table bluebubbles.polls (
    line_id text collate "C" primary key,
    polled_at timestamptz not null,
    since bigint not null,               -- unix milliseconds: what was said before the line was ours is none of our business
    seen bigint not null                 -- unix milliseconds, by the server's clock
);
