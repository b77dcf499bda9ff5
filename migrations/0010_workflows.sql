-- Workflows: which versions are live, and the active runs. The workflows process writes these tables at its checkpoint,
-- from events alone; the times and positions of workflow_schedules it moves on itself.

-- +goose Up

-- Published workflows, as they are at the process's checkpoint: which triggers fire is decided with them, in the order of
-- the ledger.
create table workflow_triggers (
    workflow_id uuid primary key,
    workspace_id uuid not null,
    version_id uuid not null,
    kind text not null,              -- message.received, contact.created, schedule or webhook
    live boolean not null            -- false: paused
);
create index workflow_triggers_workspace on workflow_triggers (workspace_id) where live;

-- The next time of each live schedule. While runs are being started for it, the contacts before reached_position have had
-- theirs.
create table workflow_schedules (
    workflow_id uuid primary key,
    version_id uuid not null,
    next_at timestamptz not null,
    reached_position bigint          -- in the order of contacts, newest first; null: not begun
);

-- Active runs, for what happens to them from outside: replies, opt-outs, moves of the workflow.
create table workflow_active_runs (
    run_id uuid primary key,
    workflow_id uuid not null,
    contact_id text collate "C" not null,
    shard smallint not null,
    started_position bigint not null, -- position in the ledger
    awaits_since bigint,             -- position at which it began to wait for a reply; null: it does not
    awaits_step integer,             -- number of the step at which it waits for a reply
    reply_id text collate "C",       -- the first message from the contact since awaits_since
    resume_at timestamptz,           -- when a waiting run goes on
    cancel text,                     -- error code with which it is to be cancelled
    agent_ended boolean not null default false -- since its last step an agent has stopped handling the conversation
) with (fillfactor = 80);
create index workflow_active_runs_contact on workflow_active_runs (contact_id);
create index workflow_active_runs_workflow on workflow_active_runs (workflow_id);
