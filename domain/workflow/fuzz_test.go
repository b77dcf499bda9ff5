package workflow_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/workflow"
)

func FuzzGraphsAreRefusedOrPlayToTheirEnd(f *testing.F) {
	for _, graph := range []string{
		`{"nodes":[{"id":"a","type":"trigger"}],"edges":[]}`,
		`{"nodes":[{"id":"a","type":"trigger"},{"id":"b","type":"wait","config":{"until_reply":{"timeout":"P1D"}}}],"edges":[{"from":"a","to":"b"}]}`,
		`{"nodes":[{"id":"a","type":"trigger"},{"id":"b","type":"condition","config":{"definition":{"field":"message.body","op":"exists","value":true}}}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"a","label":"true"}]}`,
		`{"nodes":[{"id":"a","type":"send","config":{"body":"{{"}}],"edges":[{"from":"","to":""}]}`,
	} {
		f.Add(graph, `{"keywords":["join"],"match":"contains"}`, uint8(0))
	}
	f.Add(`{"nodes":[{"id":"a","type":"trigger"}],"edges":[]}`, `{"cron":"0 9 * * 1-5","timezone":"Europe/Berlin","segment_id":"`+anID+`"}`, uint8(2))
	f.Add(`{"nodes":[{"id":"a","type":"trigger"}],"edges":[]}`, `{"phone_path":"/a/~1b","create_contact":true}`, uint8(3))
	f.Fuzz(func(t *testing.T, graph, config string, kind uint8) {
		d := &workflow.Draft{Trigger: []string{received, "contact.created", "schedule", "webhook"}[kind%4]}
		if json.Unmarshal([]byte(graph), &d.Graph) != nil || json.Unmarshal([]byte(config), &d.TriggerConfig) != nil {
			return
		}
		if len(d.Graph.Nodes) > 200 || len(d.Graph.Edges) > 400 { // the form is checked before
			return
		}
		p, issues := workflow.Check(d, here)
		for _, issue := range issues {
			require.NotEmpty(t, issue.Code)
			require.True(t, strings.HasPrefix(issue.Path, "/graph") || strings.HasPrefix(issue.Path, "/trigger"), issue.Path)
		}
		if len(issues) == 0 {
			r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test
			require.LessOrEqual(t, play(t, r, p), len(d.Graph.Nodes))
		}
	})
}
