package workflow

import (
	"time"

	"ledgerline/events"
)

// CodeAgentUnavailable is the error code of a run whose agent could not reach its model, when no edge leads on from the
// handoff.
const CodeAgentUnavailable = "agent_unavailable"

// BeginAI records that the run waits for an agent.
func (r Run) BeginAI(s *Step, now time.Time) events.Event {
	end := now.Add(s.AI.Timeout)
	return &events.RunStepWaiting{RunRef: r.RunRef, Number: r.Steps + 1, NodeID: s.ID, ResumeAt: &end}
}

// EndAI records how an agent has ended: done, handoff, or timeout, which leads on as done does (rule WFL-15).
func (r Run) EndAI(s *Step, outcome string) events.Event {
	label := outcome
	if outcome == LabelTimeout {
		label = LabelDone
	}
	detail := map[string]any{"resume_at": nil, "outcome": outcome}
	if r.ResumeAt != nil {
		detail["resume_at"] = stamp(*r.ResumeAt)
	}
	return r.Complete(s, StepCompleted, label, detail)
}
