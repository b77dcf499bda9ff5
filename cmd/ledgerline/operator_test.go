package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/line"
)

func listsLinesAndPools(t *testing.T, data string, f *devFile) {
	t.Helper()
	var lines, pools []object
	tool(t, &lines, "operator", "line", "list", data)
	require.Greater(t, len(lines), len(f.Lines.Live)+1, "includes those of other workspaces")
	tool(t, &lines, "operator", "line", "list", "--workspace", f.WorkspaceID.String(), "--state", "active", data)
	ids := map[any]object{}
	for _, l := range lines {
		ids[l["id"]] = l
	}
	live := ids[f.Lines.Live[0].ID]
	require.NotNil(t, live)
	require.Equal(t, []any{f.WorkspaceID.String(), f.Lines.Live[0].Phone, "active", 100.0},
		[]any{live["workspace_id"], live["phone"], live["state"], live["health_score"]})
	require.NotEmpty(t, live["pool_id"])
	require.Contains(t, live["usage_today"], "sends_cap")
	tool(t, &pools, "operator", "pool", "list", "--workspace", f.WorkspaceID.String(), data)
	require.Equal(t, "Default", pools[0]["name"])
	require.Equal(t, live["pool_id"], pools[0]["id"])

	for what, args := range map[string][]string{
		"There is no such line. (not_found)":      {"operator", "line", "state", "ln_none", "ready", data},
		"There is no such workspace. (not_found)": {"operator", "line", "list", "--workspace", f.OrganisationID.String(), data},
		"There is no such request. (not_found)":   {"operator", "line-request", "start", f.OrganisationID.String(), data},
		"The sandbox line belongs to its":         {"operator", "line", "state", f.Lines.Sandbox.ID, "retired", data},
		"no account at its carrier":               {"operator", "line", "state", newMac(t, data, f), "ready", data},
		"/state: A line of this carrier begins":   {"operator", "line", "create", "--workspace", f.WorkspaceID.String(), "--phone", "+12125550161", "--carrier", "bluebubbles", "--state", "ready", data},
	} {
		p := launch(t, args...)
		require.Equal(t, exitFailed, p.code(), what)
		require.Contains(t, p.err.String(), what)
	}
}

// newMac creates a line that has no account yet.
func newMac(t *testing.T, data string, f *devFile) string {
	t.Helper()
	var made struct {
		ID string `json:"line_id"`
	}
	tool(t, &made, "operator", "line", "create", "--workspace", f.WorkspaceID.String(), "--phone", "+12125550160", "--carrier", "bluebubbles", data)
	return made.ID
}

func changesCompliance(t *testing.T, data string, f *devFile) {
	t.Helper()
	id := f.OrganisationID.String()
	set := func(flags ...string) (shown object) {
		tool(t, &shown, append([]string{"operator", "organisation", "compliance", id, data}, flags...)...)
		return shown
	}
	before := set()
	require.Equal(t, object{"start": "20:00", "end": "09:00"}, before["quiet_hours"])
	require.Equal(t, false, before["require_consent"])
	shown := set("--require-consent=true", "--quiet-hours", "19:00-10:00", "--stop-keyword", "no more, thanks", "--stop-keyword", "basta", "--opt-out-confirmation", "Bye.")
	require.Equal(t, object{"start": "19:00", "end": "10:00"}, shown["quiet_hours"])
	require.Equal(t, []any{"no more, thanks", "basta"}, shown["stop_keywords"])
	require.Equal(t, []any{"Bye.", true}, []any{shown["opt_out_confirmation"], shown["require_consent"]})
	require.Equal(t, shown, set())
	status, refused := request(t, http.MethodPost, f.WriteURL+"/v1/messages", f.Keys.Live, `{"to":"+12125550142","body":"x"}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, refused)
	for what, flags := range map[string][]string{
		"/quiet_hours/start: Quiet hours must cover 20:00 to 09:00": {"--quiet-hours", "21:00-09:00"},
		"/stop_keywords/0": {"--stop-keyword", "start"},
	} {
		p := launch(t, append([]string{"operator", "organisation", "compliance", id, data}, flags...)...)
		require.Equal(t, exitFailed, p.code(), what)
		require.Contains(t, p.err.String(), what)
	}
	require.Equal(t, exitUsage, launch(t, "operator", "organisation", "compliance", id, data, "--quiet-hours", "at night").code())
	require.Equal(t, before, set("--require-consent=false", "--quiet-hours", "none", "--no-stop-keywords", "--opt-out-confirmation", ""))
}

func TestLimitsAreChangedByNameAndMistakesAreExplained(t *testing.T) {
	t.Parallel()
	limits := line.DefaultLimits()
	require.NoError(t, changeLimits(&limits, `{"sends_per_day":2000,"reply_ratio_min":0.2}`))
	want := line.DefaultLimits()
	want.SendsPerDay, want.ReplyRatioMin = 2000, 0.2
	require.Equal(t, want, limits)
	require.NoError(t, changeLimits(&limits, `{"warmup_curve":[{"from_day":1,"to_day":null,"new_per_day":5}]}`))
	require.Len(t, limits.WarmupCurve, 1)
	for text, message := range map[string]string{
		"": "takes a JSON object", "null": "takes a JSON object", "[]": "takes a JSON object", "{}": "takes a JSON object", "{": "takes a JSON object", `"x"`: "takes a JSON object",
		`{"sends":1}`: `no limit "sends"; there are: identical_text_max_per_day, `, `{"sends_per_day":null}`: "sends_per_day needs a value",
		`{"sends_per_day":"x"}`: "sends_per_day must be a whole number", `{"sends_per_day":[1]}`: "sends_per_day must be a whole number",
		`{"sends_per_day":1.5}`: "sends_per_day must be a whole number", `{"reply_ratio_min":"x"}`: "reply_ratio_min must be a number",
		`{"warmup_curve":1}`: "warmup_curve must be a list of steps", `{"warmup_curve":[{"day":1}]}`: "warmup_curve must be a list of steps",
		`{"warmup_curve":[{"from_day":"x"}]}`: "warmup_curve must be a list of steps",
	} {
		err := changeLimits(&limits, text)
		require.ErrorIs(t, err, errUsage, text)
		require.Contains(t, err.Error(), message, text)
		require.NotContains(t, err.Error(), "Go", text)
	}
}
