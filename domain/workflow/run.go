package workflow

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"ledgerline/events"
)

// RunStatus is the state of a run (rule WFL-25).
type RunStatus string

// The statuses of a run.
const (
	RunRunning   RunStatus = "running"
	RunWaiting   RunStatus = "waiting"
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
)

// The statuses of a step (rule WFL-23).
const (
	StepCompleted = "completed"
	StepSkipped   = "skipped"
	StepFailed    = "failed"
	StepWaiting   = "waiting"
)

// The error codes of runs (rule WFL-25). A refused message fails the run with the code of its refusal.
const (
	CodeOptedOut         = "contact_opted_out"
	CodeContactDeleted   = "contact_deleted"
	CodeArchived         = "workflow_archived"
	CodeTemplateMissing  = "template_missing"
	CodeReferenceMissing = "reference_missing"
)

// MaxActiveRuns is how many active runs a contact can have (rule WFL-22).
const MaxActiveRuns = 20

// RunStream returns the name of the stream of a run.
func RunStream(id uuid.UUID) string { return events.Stream("run", id) }

// RunClaim returns the scope and key under which the active run of a workflow and a contact is claimed (rule WFL-22).
func RunClaim(workflowID uuid.UUID, contactID string) (scope, key string) {
	return "run:" + workflowID.String(), contactID
}

// RunID returns the id of the run that a trigger starts. It depends on the workflow, the cause (a message, a contact, a
// time and a contact) and the time of the cause only, so that a trigger that is handled again starts no second run. It
// is a UUIDv7.
func RunID(workflowID uuid.UUID, cause string, at time.Time) uuid.UUID {
	sum := sha256.Sum256(append(workflowID[:], cause...))
	id := uuid.UUID(sum[:16])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(at.UnixMilli(), 0))) //nolint:gosec // not negative
	copy(id[:6], ms[2:])
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
	return id
}

// Run is the state of one run. The zero value does not exist.
type Run struct {
	events.RunRef
	Organisation uuid.UUID
	Workspace    uuid.UUID
	VersionID    uuid.UUID
	Status       RunStatus
	Node         string     // the node that is next, or at which the run waits
	Steps        int        // number of the last step
	ResumeAt     *time.Time // with RunWaiting: when the wait ends by itself
	AwaitsReply  bool       // with RunWaiting: the contact's next message ends the wait
	MessageID    *string    // the message that conditions are about
	Data         map[string]any
	Sent         bool // a send step was completed
}

// Apply returns the state after one event of the run's stream.
func (r Run) Apply(event events.Event, in events.Envelope) Run {
	switch e := event.(type) {
	case *events.RunStarted:
		return Run{
			RunRef: e.RunRef, Organisation: in.Organisation, Workspace: in.Workspace, VersionID: e.VersionID, Status: RunRunning,
			MessageID: e.MessageID, Data: e.Data.Trigger,
		}
	case *events.RunStepWaiting:
		r.Status, r.Node, r.Steps, r.ResumeAt, r.AwaitsReply = RunWaiting, e.NodeID, e.Number, e.ResumeAt, e.Reply
	case *events.RunStepCompleted:
		r.Status, r.Node, r.Steps, r.ResumeAt, r.AwaitsReply = RunRunning, e.Next, e.Number, nil, false
		if e.MessageID != nil {
			r.MessageID = e.MessageID
		}
		if _, sent := e.Detail["message_id"]; sent {
			r.Sent = true
		}
	case *events.RunFinished:
		r.Status, r.Node = RunStatus(e.Status), ""
	}
	return r
}

// Exists reports whether the run was started.
func (r Run) Exists() bool { return r.RunID != uuid.Nil }

// Active reports whether the run is running or waiting.
func (r Run) Active() bool { return r.Status == RunRunning || r.Status == RunWaiting }

// Start starts a run with its first step, the trigger.
func Start(e *events.RunStarted, p *Plan) []events.Event {
	return []events.Event{e, &events.RunStepCompleted{
		RunRef: e.RunRef, Number: 1, NodeID: p.Start.ID, Status: StepCompleted, Detail: map[string]any{"trigger": e.Trigger}, Next: p.Start.Next(""),
	}}
}

// Complete records the result of the step that the run is at. The edge with the label leads on; "" is the edge without
// a label.
func (r Run) Complete(s *Step, status, label string, detail map[string]any) *events.RunStepCompleted {
	number := r.Steps + 1
	if r.Status == RunWaiting { // the step has its number already
		number = r.Steps
	}
	return &events.RunStepCompleted{RunRef: r.RunRef, Number: number, NodeID: s.ID, Status: status, Detail: detail, Next: s.Next(label)}
}

// BeginWait records that the run waits at a step. A wait until a time that has passed is over at once.
func (r Run) BeginWait(s *Step, now time.Time) events.Event {
	end := s.Wait.End(now)
	if !end.After(now) {
		return r.Complete(s, StepCompleted, "", map[string]any{"resume_at": stamp(end), "outcome": OutcomeElapsed})
	}
	return &events.RunStepWaiting{RunRef: r.RunRef, Number: r.Steps + 1, NodeID: s.ID, ResumeAt: &end, Reply: s.Wait.ForReply()}
}

// Reply is a message that the contact wrote while a run waited for a reply.
type Reply struct {
	MessageID string
	Step      int // number of the step at which the run waited
}

// EndWait records the end of the wait of a waiting run: by a reply, or because its time has come. It returns nil while
// the run goes on waiting. The reply to an earlier wait ends no other one: a worker may know of it late.
func (r Run) EndWait(s *Step, reply *Reply, now time.Time) events.Event {
	var outcome, label string
	switch {
	case r.ResumeAt == nil:
		return nil
	case r.AwaitsReply && reply != nil && reply.Step == r.Steps:
		outcome, label = LabelReplied, LabelReplied
	case now.Before(*r.ResumeAt):
		return nil
	case r.AwaitsReply:
		outcome, label = LabelTimeout, LabelTimeout
	default:
		outcome = OutcomeElapsed
	}
	e := r.Complete(s, StepCompleted, label, map[string]any{"resume_at": stamp(*r.ResumeAt), "outcome": outcome})
	if outcome == LabelReplied {
		e.MessageID = &reply.MessageID
	}
	return e
}

// Fail records that the step that the run is at has failed, and with it the run. A contact that opted out cancels the
// run (rule WFL-27).
func (r Run) Fail(s *Step, code string) []events.Event {
	failed := r.Complete(s, StepFailed, "", map[string]any{"code": code})
	failed.Next = ""
	status := RunFailed
	if code == CodeOptedOut {
		status = RunCancelled
	}
	return []events.Event{failed, r.finish(status, &code)}
}

// Finish completes a run whose last step led nowhere.
func (r Run) Finish() events.Event { return r.finish(RunCompleted, nil) }

// Cancel ends an active run because of something outside of it.
func (r Run) Cancel(code string) events.Event { return r.finish(RunCancelled, &code) }

func (r Run) finish(status RunStatus, code *string) events.Event {
	return &events.RunFinished{RunRef: r.RunRef, Status: string(status), Code: code}
}

// stamp is a time as the details of steps show it.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
