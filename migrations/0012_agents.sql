-- Agents: the conversations that they handle. The agents process writes this table at its checkpoint, from events; due_at
-- and failures it moves on itself, and it clears what is answered.

-- +goose Up

create table agent_conversations (
    conversation_id text collate "C" primary key,
    contact_id text collate "C" not null,
    agent_id uuid not null,
    shard smallint not null,
    hand_over boolean not null default false, -- the agent was paused
    -- What the agent has to answer; null: nothing.
    asked_position bigint,              -- position in the ledger of the event that asks
    question_id text collate "C",       -- the message; null: the agent was given the conversation, and looks for it
    due_at timestamptz,                 -- of the next call of the model
    failures integer not null default 0 -- calls that failed in a row
) with (fillfactor = 80);
create index agent_conversations_due on agent_conversations (agent_id, due_at) where asked_position is not null;
create index agent_conversations_agent on agent_conversations (agent_id);
create index agent_conversations_contact on agent_conversations (contact_id);
