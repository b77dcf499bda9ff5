package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/line"
)

type organisationLimitsCommand struct {
	installation
	ID  uuid.UUID `arg:"" help:"The organisation."`
	Set *string   `help:"Limits to change, as JSON with the names of the API, for example {\"sends_per_day\":2000}. Other limits stay." placeholder:"JSON"`
}

// Run implements the command.
func (c *organisationLimitsCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req := commands.Request{Organisation: c.ID, Actor: w.operator()}
		limits, err := w.App.SendingLimits(ctx, req)
		if err != nil || c.Set == nil {
			return limits, err
		}
		if err := changeLimits(&limits, *c.Set); err != nil {
			return nil, err
		}
		_, err = w.App.SetSendingLimits(ctx, req, limits)
		return limits, err
	})
}

// changeLimits replaces the limits that a JSON object names. It returns errUsage for unknown names and wrong values.
func changeLimits(limits *line.Limits, text string) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &given); err != nil || len(given) == 0 {
		return usage(`--set takes a JSON object that names limits, for example {"sends_per_day":2000}`)
	}
	var known []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[line.Limits]()) {
		known = append(known, field.Tag.Get("json"))
	}
	for name, value := range given {
		if !slices.Contains(known, name) {
			return usage("--set: there is no limit %q; there are: %s", name, strings.Join(known, ", "))
		}
		if bytes.Equal(value, []byte("null")) {
			return usage("--set: %s needs a value", name)
		}
		one, _ := json.Marshal(map[string]json.RawMessage{name: value}) //nolint:errchkjson // it was just read
		decoder := json.NewDecoder(bytes.NewReader(one))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(limits); err != nil {
			return usage("--set: %s must be %s", name, limitForm(err))
		}
	}
	return nil
}

// limitForm describes the value that was expected where decoding a limit failed.
func limitForm(err error) string {
	const steps = `a list of steps, for example [{"from_day":1,"to_day":7,"new_per_day":10},{"from_day":8,"to_day":null,"new_per_day":50}]`
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) || strings.HasPrefix(wrong.Field, "warmup_curve") {
		return steps
	}
	if wrong.Type.Kind() == reflect.Float64 {
		return "a number"
	}
	return "a whole number"
}
