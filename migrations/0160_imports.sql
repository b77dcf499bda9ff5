-- +goose Up

-- Files of imports that are under way, sealed with the installation's key. A file is here before its job is accepted, and
-- goes when the job ends.
create table import_files (
    job_id uuid primary key,
    sealed bytea not null,
    staged_at timestamptz not null default now() -- real time: the housekeeping removes what no job came of
);
alter table import_files alter column sealed set storage external; -- sealed bytes do not compress
