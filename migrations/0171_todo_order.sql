-- +goose Up

-- Locks keys of a process in their order, as asks take them, so that no two transactions that write several rows can wait for
-- each other. Row by row for the same reason as the functions beside it; and a function's statement is planned once.
-- +goose StatementBegin
create function process_todo_lock(of_process text, keys text[]) returns void language plpgsql as $$
declare
    k text collate "C";
begin
    for k in select u.k from unnest(keys) u (k) order by u.k collate "C" loop
        perform from process_todo where process = of_process and key = k for update;
    end loop;
end $$;
-- +goose StatementEnd

-- Takes keys off the list of a process, in their order.
-- +goose StatementBegin
create function process_todo_drop(of_process text, keys text[]) returns void language plpgsql as $$
declare
    k text collate "C";
begin
    for k in select u.k from unnest(keys) u (k) order by u.k collate "C" loop
        delete from process_todo where process = of_process and key = k;
    end loop;
end $$;
-- +goose StatementEnd
