package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/workflow"
	"ledgerline/events"
)

// after folds events into a workflow.
func after(w workflow.Workflow, list ...events.Event) workflow.Workflow {
	for _, e := range list {
		w = w.Apply(e, events.Envelope{At: noon})
	}
	return w
}

func created(t *testing.T) workflow.Workflow {
	t.Helper()
	list, err := workflow.Create(uuidOf(1), " Welcome ", workflow.Draft{Trigger: received})
	require.NoError(t, err)
	return after(workflow.Workflow{}, list...)
}

func published(t *testing.T, w workflow.Workflow) workflow.Workflow {
	t.Helper()
	p, err := w.Publish(uuidOf(byte(w.Version+10)), "UTC", nil)
	require.NoError(t, err)
	require.Len(t, p.Version, len(p.Workflow))
	return after(w, p.Workflow...)
}

func moved(t *testing.T, w workflow.Workflow, to workflow.Status) workflow.Workflow {
	t.Helper()
	list, err := w.Update(workflow.Change{Status: &to})
	require.NoError(t, err)
	return after(w, list...)
}

func TestAWorkflowStartsAsADraftAndPublishingMakesItLive(t *testing.T) {
	t.Parallel()
	w := created(t)
	require.Equal(t, []any{"Welcome", workflow.StatusDraft, true, 0}, []any{w.Name, w.Status, w.HasDraft, w.Version})
	require.NotNil(t, w.TriggerConfig)
	require.NotNil(t, w.Graph.Nodes)
	w = published(t, w)
	require.Equal(t, []any{workflow.StatusLive, false, 1, uuidOf(10)}, []any{w.Status, w.HasDraft, w.Version, w.VersionID})
	p, err := w.Publish(uuidOf(99), "UTC", nil)
	require.NoError(t, err)
	require.Empty(t, p, "without a draft it changes nothing")
	name := "Goodbye"
	list, err := w.Update(workflow.Change{Name: &name})
	require.NoError(t, err)
	w = after(w, list...)
	require.Equal(t, []any{workflow.StatusLive, true, 1}, []any{w.Status, w.HasDraft, w.Version}, "an edit of a live workflow begins a draft")
	w = published(t, moved(t, w, workflow.StatusPaused))
	require.Equal(t, []any{workflow.StatusLive, false, 2}, []any{w.Status, w.HasDraft, w.Version}, "publishing a paused one makes it live")
}

func TestMovesBetweenTheStatusesOfAWorkflow(t *testing.T) {
	t.Parallel()
	draft, archived := created(t), moved(t, created(t), workflow.StatusArchived)
	live := published(t, draft)
	paused := moved(t, live, workflow.StatusPaused)
	for _, c := range []struct {
		from workflow.Workflow
		to   workflow.Status
		want string
	}{
		{draft, workflow.StatusDraft, ""}, {draft, workflow.StatusLive, "conflict"}, {draft, workflow.StatusPaused, "conflict"},
		{draft, workflow.StatusArchived, "archived"},
		{live, workflow.StatusLive, ""}, {live, workflow.StatusPaused, "paused"}, {live, workflow.StatusArchived, "archived"},
		{paused, workflow.StatusPaused, ""}, {paused, workflow.StatusLive, "live"}, {paused, workflow.StatusArchived, "archived"},
		{archived, workflow.StatusArchived, "conflict"}, {archived, workflow.StatusLive, "conflict"}, {archived, workflow.StatusPaused, "conflict"},
	} {
		list, err := c.from.Update(workflow.Change{Status: &c.to})
		switch c.want {
		case "conflict":
			require.True(t, fault.Is(err, fault.Conflict), "%s to %s", c.from.Status, c.to)
		case "":
			require.NoError(t, err)
			require.Empty(t, list)
		default:
			require.NoError(t, err)
			require.Equal(t, workflow.Status(c.want), after(c.from, list...).Status)
		}
	}
	name := "x"
	_, err := archived.Update(workflow.Change{Name: &name})
	require.True(t, fault.Is(err, fault.Conflict))
	_, err = archived.Publish(uuidOf(2), "UTC", nil)
	require.True(t, fault.Is(err, fault.Conflict))
}

func TestEditsChangeTheDraftAndWhatIsSoAlreadyIsNoEvent(t *testing.T) {
	t.Parallel()
	w := published(t, created(t))
	schedule, same, name, graph := "schedule", received, "Welcome ", events.WorkflowGraph{Nodes: []events.WorkflowNode{{ID: "a", Type: "trigger"}}}
	list, err := w.Update(workflow.Change{Name: &name, Trigger: &same, TriggerConfig: map[string]any{"token": "x"}, Graph: &events.WorkflowGraph{}})
	require.NoError(t, err)
	require.Empty(t, list)
	paused := workflow.StatusPaused
	list, err = w.Update(workflow.Change{TriggerConfig: map[string]any{"match": "exact"}, Graph: &graph, Status: &paused})
	require.NoError(t, err)
	require.Equal(t, []any{&events.WorkflowEdited{
		WorkflowID: w.ID, Changed: []string{"trigger_config", "graph"}, TriggerConfig: map[string]any{"match": "exact"},
		Graph: &events.WorkflowGraph{Nodes: []events.WorkflowNode{{ID: "a", Type: "trigger", Config: map[string]any{}}}, Edges: []events.WorkflowEdge{}},
	}, &events.WorkflowPaused{WorkflowID: w.ID}}, []any{list[0], list[1]}, "edits first, one append")
	w = after(w, list...)
	list, err = w.Update(workflow.Change{Trigger: &schedule})
	require.NoError(t, err)
	require.Empty(t, after(w, list...).TriggerConfig, "a new trigger without a config resets it")
	for _, bad := range []string{"", "  ", strings.Repeat("x", 121), "a\nb"} {
		_, err = w.Update(workflow.Change{Name: &bad})
		require.True(t, fault.Is(err, fault.ValidationFailed), "%q", bad)
	}
}
