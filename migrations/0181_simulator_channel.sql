-- +goose Up

-- A message that goes on by SMS after its chat attempt is another sending, with a script of its own.
alter table simulator.messages add column channel text collate "C" not null default 'chat';
update simulator.messages set channel = 'sms' where script like '%/sms';
alter table simulator.messages alter column channel drop default;
alter table simulator.messages drop constraint messages_pkey, add primary key (message_id, channel);

drop function simulator.advance(text[], smallint[], timestamptz[], boolean[], integer[], interval[]);

-- Writes down how far scripts have got, row by row by primary key, whatever the table's statistics say.
-- +goose StatementBegin
create function simulator.advance(ids text[], channels text[], steps smallint[], dues timestamptz[], keep boolean[], failed integer[],
    pauses interval[])
returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(ids) loop
        update simulator.messages set step = steps[i], due_at = dues[i], failures = failed[i], retry_at = now() + pauses[i],
            sealed = case when keep[i] then sealed end
        where message_id = ids[i] and channel = channels[i];
    end loop;
end $$;
-- +goose StatementEnd
