-- +goose Up

-- Who stands in a queue and may not be written to now keeps its place and rests until then.
alter table sending_waiting add column not_before timestamptz;
create index sending_waiting_resting on sending_waiting (queue, not_before) where not_before is not null;
