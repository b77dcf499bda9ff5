-- +goose Up

-- How far a contact is in the queue it stands in: it waits, is let go, or rests until a time, in quiet hours or because the room
-- that there is does it no good. judged_at is the place in the ledger at which that was found.
alter table sending_waiting add column stage text collate "C" not null default 'waiting' check (stage in ('waiting', 'going', 'quiet', 'unfit')),
    add column judged_at bigint;
update sending_waiting set stage = 'going', queue = left(queue, -3) where queue like '%/go';
update sending_waiting set stage = 'quiet', queue = left(queue, -5) where queue like '%/rest';
drop index sending_waiting_queue, sending_waiting_resting;
create index sending_waiting_queue on sending_waiting (queue, stage, position);
create index sending_waiting_resting on sending_waiting (queue, not_before) where not_before is not null;
