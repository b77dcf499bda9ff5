-- +goose Up

-- What a message is held for, so that a rule that is loosened looks at those whom it held, and not at all who wait.
alter table sending_outbox add column organisation_id uuid, add column held text collate "C";
update sending_outbox o set organisation_id = e.organisation_id,
    held = (select d.data->>'reason' from ledger_events d where d.stream = o.message_id and d.type = 'message.deferred' order by d.version desc limit 1)
    from ledger_events e where e.stream = o.message_id and e.version = 1;
alter table sending_outbox alter column organisation_id set not null;
create index sending_outbox_held on sending_outbox (organisation_id, held) where held is not null;
drop index sending_outbox_identity;
alter table sending_outbox drop column identity_id;
