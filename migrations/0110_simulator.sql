-- +goose Up

-- The simulator's own memory. It stands for an outside system, so that nothing else reads or writes it, and it outlives
-- the process that it runs in. Personal data lies only in "sealed", and only until the script needs it no more.
create schema simulator;

create table simulator.messages (
    message_id text collate "C" primary key,
    carrier_id text not null,
    script text not null,
    calls integer not null,              -- of Send
    refuses integer not null,            -- how many of the next calls are refused for now
    sends integer not null,              -- calls that were taken: more than one is a message that arrived twice
    accepted_at timestamptz not null,    -- of the first that was taken
    step smallint not null default 0,    -- the next one of the script
    due_at timestamptz,                  -- of the next step, by the service's clock; null when the script is over
    failures integer not null default 0, -- reports in a row that were not taken
    retry_at timestamptz,                -- after a failure, in real time
    sealed bytea                         -- what replies need: numbers and text
);
create index simulator_messages_due on simulator.messages (due_at) where due_at is not null and sends > 0;

-- Writes down how far scripts have got, row by row by primary key, whatever the table's statistics say.
-- +goose StatementBegin
create function simulator.advance(ids text[], steps smallint[], dues timestamptz[], keep boolean[], failed integer[], pauses interval[])
returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(ids) loop
        update simulator.messages set step = steps[i], due_at = dues[i], failures = failed[i], retry_at = now() + pauses[i],
            sealed = case when keep[i] then sealed end
        where message_id = ids[i];
    end loop;
end $$;
-- +goose StatementEnd
