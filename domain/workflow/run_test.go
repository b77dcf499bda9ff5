package workflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// begun returns a run that has taken the trigger step of a graph, and its plan.
func begun(t *testing.T, graph string) (workflow.Run, *workflow.Plan) {
	t.Helper()
	p, issues := workflow.Check(draft(t, received, `{}`, graph), here)
	require.Empty(t, issues)
	start := &events.RunStarted{RunRef: events.RunRef{RunID: uuidOf(1), WorkflowID: uuidOf(2), ContactID: "ctc_a"}, Trigger: received}
	return grown(workflow.Run{}, workflow.Start(start, p)...), p
}

// grown folds events into a run.
func grown(r workflow.Run, list ...events.Event) workflow.Run {
	for _, e := range list {
		r = r.Apply(e, events.Envelope{At: noon})
	}
	return r
}

const waits = `{"nodes":[{"type":"trigger"},{"type":"wait","config":{"until_reply":{"timeout":"PT1H"}}},{"type":"send","config":{"body":"x"}}],
	"edges":[{"from":"n0","to":"n1"},{"from":"n1","to":"n2","label":"replied"}]}`

func TestTheTriggerIsTheFirstStepOfARun(t *testing.T) {
	t.Parallel()
	r, _ := begun(t, waits)
	require.Equal(t, []any{workflow.RunRunning, "n1", 1, true}, []any{r.Status, r.Node, r.Steps, r.Active()})
	require.False(t, workflow.Run{}.Exists())
	require.True(t, r.Exists())
}

func TestAWaitForAReplyEndsWithTheReplyOrItsTimeout(t *testing.T) {
	t.Parallel()
	r, p := begun(t, waits)
	step := p.Steps["n1"]
	r = grown(r, r.BeginWait(step, noon))
	require.Equal(t, []any{workflow.RunWaiting, "n1", 2, noon.Add(time.Hour)}, []any{r.Status, r.Node, r.Steps, *r.ResumeAt})
	require.Nil(t, r.EndWait(step, nil, noon.Add(time.Hour-time.Millisecond)))
	require.Nil(t, r.EndWait(step, &workflow.Reply{MessageID: "msg_a", Step: 1}, noon), "the reply to an earlier wait ends no other one")
	replied := grown(r, r.EndWait(step, &workflow.Reply{MessageID: "msg_a", Step: 2}, noon))
	require.Equal(t, []any{"n2", 2, "msg_a", workflow.RunRunning}, []any{replied.Node, replied.Steps, *replied.MessageID, replied.Status}, "one step entry for a node")
	late := grown(r, r.EndWait(step, nil, noon.Add(time.Hour)))
	require.Empty(t, late.Node, "a missing edge ends the run there")
	require.Equal(t, workflow.RunCompleted, grown(late, late.Finish()).Status)
}

func TestAWaitUntilATimeThatHasPassedIsOverAtOnce(t *testing.T) {
	t.Parallel()
	r, p := begun(t, `{"nodes":[{"type":"trigger"},{"type":"wait","config":{"until":"2020-01-01T00:00:00Z"}}],"edges":[{"from":"n0","to":"n1"}]}`)
	ended, ok := r.BeginWait(p.Steps["n1"], noon).(*events.RunStepCompleted)
	require.True(t, ok)
	require.Equal(t, map[string]any{"resume_at": "2020-01-01T00:00:00.000Z", "outcome": "elapsed"}, ended.Detail)
}

func TestAFailedStepEndsTheRunAndAnOptOutCancelsIt(t *testing.T) {
	t.Parallel()
	r, p := begun(t, waits)
	for code, want := range map[string]workflow.RunStatus{"template_missing": workflow.RunFailed, "contact_opted_out": workflow.RunCancelled} {
		failed := grown(r, r.Fail(p.Steps["n1"], code)...)
		require.Equal(t, want, failed.Status)
		require.False(t, failed.Active())
	}
	require.Equal(t, workflow.RunCancelled, grown(r, r.Cancel(workflow.CodeArchived)).Status)
}

func TestTheIDOfARunDependsOnItsCauseOnly(t *testing.T) {
	t.Parallel()
	id := workflow.RunID(uuidOf(1), "msg_a", noon)
	require.Equal(t, id, workflow.RunID(uuidOf(1), "msg_a", noon))
	require.Equal(t, "7", id.String()[14:15], "a UUIDv7")
	sec, _ := id.Time().UnixTime()
	require.Equal(t, noon.Unix(), sec)
	for _, other := range []uuidType{workflow.RunID(uuidOf(2), "msg_a", noon), workflow.RunID(uuidOf(1), "msg_b", noon)} {
		require.NotEqual(t, id, other)
	}
}
