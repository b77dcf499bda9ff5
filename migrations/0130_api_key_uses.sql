-- +goose Up

-- When a key was used last, true to the minute. It is no fact of the ledger: losing it loses nothing but this.
create table api_key_uses (
    key_id text collate "C" primary key,
    used_at timestamptz not null
) with (fillfactor = 80);
