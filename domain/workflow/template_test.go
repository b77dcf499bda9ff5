package workflow_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/workflow"
)

func TestTemplatesShowTheContactAndTheTriggerData(t *testing.T) {
	t.Parallel()
	name, empty := "Ada", ""
	v := workflow.Values{Phone: "+14155550100", FirstName: &name, Company: &empty, Fields: map[string]any{"seats": 12.0, "half": 0.5, "trial": false, "tags": []any{"a"}, "a b": "c"}}
	require.NoError(t, json.Unmarshal([]byte(`{"order":{"id":17,"items":[{"name":"tea"}],"a/b":"slash"},"big":1e21,"none":null}`), &v.Trigger))
	const missing = "(missing)"
	for text, want := range map[string]string{
		"plain }} { text":           "plain }} { text",
		"Hi {{first_name}}!":        "Hi Ada!",
		"Hi {{ first_name | you }}": "Hi Ada",
		"Hi {{last_name|there}}":    "Hi there",
		"Hi {{last_name|}}!":        "Hi !",
		"Hi {{last_name}}":          missing,
		"{{company}}":               missing,
		"{{company|none}}":          "none",
		"{{phone}}{{email|-}}":      "+14155550100-",
		"{{fields.seats}} {{fields.half}} {{fields.trial}} {{fields.a b}}": "12 0.5 false c",
		"{{fields.tags}}":                      missing,
		"{{fields.none|x}}":                    "x",
		"{{trigger.order/id}}":                 "17",
		"{{trigger.order/items/0/name}}":       "tea",
		"{{trigger.order/items/1/name|?}}":     "?",
		"{{trigger.order/items/00/name|?}}":    "?",
		"{{trigger.order/a~1b}}":               "slash",
		"{{trigger.big}}":                      "1e+21",
		"{{trigger.order}}":                    missing,
		"{{trigger.none|-}}{{trigger.nope|-}}": "--",
		"{{first_name|a|b}}{{last_name|a|b}}":  "Adaa|b",
	} {
		template, err := workflow.ParseTemplate(text)
		require.NoError(t, err, text)
		got, ok := template.Render(v)
		if !ok {
			got = missing
		}
		require.Equal(t, want, got, text)
	}
}

func TestUnknownTemplateVariablesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{nick}}", "{{}}", "{{ }}", "{{fields.}}", "{{trigger.}}", "{{trigger.a~2}}", "{{first_name", "{{First_name}}", "{{|x}}"} {
		_, err := workflow.ParseTemplate(text)
		require.Error(t, err, text)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("Hi {{first_name|there}} {{trigger.a/0}}")
	f.Fuzz(func(_ *testing.T, text string) {
		if template, err := workflow.ParseTemplate(text); err == nil {
			template.Render(workflow.Values{Trigger: map[string]any{"a": []any{"b"}}})
		}
	})
}
