-- +goose Up

-- The other queues whose room would do for who waits in one, by their keys with spaces between them: of a line that comes first and
-- cannot send now, of lines that the contact is known to, or of the pool when its own line can send no more.
alter table sending_waiting add column elsewhere text collate "C" not null default '';
create index sending_waiting_elsewhere on sending_waiting (queue, elsewhere, position) where stage = 'waiting' and elsewhere <> '';
-- Who rests because the room is of no use is found by when that was seen.
create index sending_waiting_judged on sending_waiting (queue, judged_at) where stage = 'unfit';
