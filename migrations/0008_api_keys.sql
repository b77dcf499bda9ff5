-- API keys: what is known of their use beside the ledger.

-- +goose Up

-- When a key was last used, to the minute. This is no event: losing it loses nothing else.
create table api_key_uses (
    key_id text collate "C" primary key,
    used_at timestamptz not null
) with (fillfactor = 80);
