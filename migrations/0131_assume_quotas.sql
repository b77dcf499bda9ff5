-- +goose Up

-- The appender's shortcut, now for batches with quotas as well: for each counter asked about, what is used from a moment
-- on together with what the batch adds may not pass the limit.
drop function ledger_assume(integer, bigint, bigint, text[], integer[], text[], text[], uuid[], text[], text[]);
-- +goose StatementBegin
create function ledger_assume(
    sh integer, head bigint, reached bigint,
    streams text[], versions integer[],
    free_scopes text[], free_keys text[],
    receipt_workspaces uuid[], receipt_keys text[],
    new_subjects text[],
    quota_keys text[], quota_since timestamptz[], quota_rooms bigint[]
) returns void language plpgsql as $$
begin
    update ledger_heads set position = reached where shard = sh and position = head;
    if not found then
        raise exception 'the head has moved' using errcode = 'LL002';
    end if;
    if exists (
        select from unnest(streams, versions) u (stream, version)
        where u.version <> coalesce((select e.version from ledger_events e where e.stream = u.stream order by e.version desc limit 1), 0)
    ) or exists (
        select from unnest(free_scopes, free_keys) u (scope, key) join ledger_claims c on c.scope = u.scope and c.key = u.key
    ) or exists (
        select from unnest(receipt_workspaces, receipt_keys) u (workspace_id, key)
        join ledger_receipts r on r.workspace_id = u.workspace_id and r.key = u.key
    ) or exists (
        select from ledger_keys k where k.subject = any(new_subjects)
    ) or exists (
        select from unnest(quota_keys, quota_since, quota_rooms) u (key, since, room)
        where u.room < coalesce((select sum(q.used) from ledger_quotas q where q.key = u.key and q.bucket >= u.since), 0)
    ) then
        raise exception 'not as assumed' using errcode = 'LL002';
    end if;
end $$;
-- +goose StatementEnd
