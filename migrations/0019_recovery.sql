-- Recovery: while a row has no released_at, no message leaves. Package processes/recovery.

-- +goose Up

create table recoveries (
    id bigint generated always as identity primary key,
    started_at timestamptz not null default now(), -- by this database's clock
    since timestamptz not null,                    -- what happened after this time may be missing in the database
    reason text not null,
    heads bigint[] not null,                       -- of the shards, when the recovery started: messages up to there may have been sent
    released_at timestamptz
);
create unique index recoveries_active on recoveries ((true)) where released_at is null;
