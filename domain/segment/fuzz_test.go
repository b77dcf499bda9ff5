package segment_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/segment"
)

// FuzzDefinitions checks that any JSON is either refused with issues that name their place, or gives a condition that
// can be evaluated, and whose opposite gives the opposite result.
func FuzzDefinitions(f *testing.F) {
	for _, seed := range []string{
		`{"field":"first_name","op":"eq","value":"Ada"}`,
		`{"all":[{"field":"labels","op":"contains","value":"vip"},{"not":{"field":"email","op":"exists","value":true}}]}`,
		`{"any":[{"field":"fields.plan","op":"in","value":["a",1,true]},{"field":"created_at","op":"within_days","value":7}]}`,
		`{"field":"fields.age","op":"gte","value":1e308}`, `{"all":[]}`, `{"not":{"not":{"not":null}}}`, `[]`, `null`, `{"field":"phone","op":"starts_with","value":"+1"}`,
	} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	text := "Ada"
	contact := &segment.Contact{
		Phone: "+12025550100", FirstName: &text, Email: &text, ConsentStatus: "opted_in", LabelIDs: []uuid.UUID{uuid.Max}, CreatedAt: &now,
		Fields: segment.FoldFields(map[string]any{"plan": "a", "age": 5.0, "list": []any{"x", 1.0}}),
	}
	f.Fuzz(func(t *testing.T, text string) {
		var definition any
		if json.Unmarshal([]byte(text), &definition) != nil {
			t.Skip()
		}
		node, err := segment.Parse(definition, "/definition")
		if err != nil {
			refused := fault.Of(err)
			require.NotNil(t, refused, "%v", err)
			require.NotEmpty(t, refused.Issues)
			for _, issue := range refused.Issues {
				require.Contains(t, issue.Path, "/definition")
			}
			return
		}
		_ = node.BindLabels(func(string) (uuid.UUID, bool) { return uuid.Max, true })
		opposite, err := segment.Parse(map[string]any{"not": definition}, "")
		if err != nil {
			return // one level too deep
		}
		_ = opposite.BindLabels(func(string) (uuid.UUID, bool) { return uuid.Max, true })
		require.NotEqual(t, node.Matches(contact, now), opposite.Matches(contact, now))
	})
}
