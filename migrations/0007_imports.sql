-- Imports: the files of contact imports that are under way.

-- +goose Up

-- A file is stored before its job is accepted, and deleted when the job ends.
create table import_files (
    job_id uuid primary key,
    sealed bytea not null,                       -- the file, encrypted with the installation's key
    staged_at timestamptz not null default now() -- real time: housekeeping deletes files whose job was never accepted
);
alter table import_files alter column sealed set storage external; -- encrypted bytes do not compress
