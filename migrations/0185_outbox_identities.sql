-- +goose Up

-- When a service identity may do more, its own messages are looked at again, and not all that wait in the workspace.
alter table sending_outbox add column identity_id uuid;
create index sending_outbox_identity on sending_outbox (identity_id) where identity_id is not null;
drop index sending_outbox_workspace;
