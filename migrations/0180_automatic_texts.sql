-- +goose Up

-- Automatic texts that wait for their line are few, and are found when lines change.
create index sending_outbox_automatic on sending_outbox (workspace_id) where automatic;
