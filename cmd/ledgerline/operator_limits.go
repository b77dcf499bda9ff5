package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"ledgerline/commands"
)

type organisationLimitsCommand struct {
	installation
	ID  uuid.UUID `arg:"" help:"The organisation."`
	Set string    `help:"Limits to change, as JSON with the names of the interface, for example {\"sends_per_day\":2000}; what is not named stays." placeholder:"JSON"`
}

// Run implements the command.
func (c *organisationLimitsCommand) Run(ctx context.Context, con *console) error {
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req := commands.Request{Organisation: c.ID, Actor: operator}
		limits, err := w.App.SendingLimits(ctx, req)
		if err != nil || c.Set == "" {
			return limits, err
		}
		decoder := json.NewDecoder(bytes.NewBufferString(c.Set))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&limits); err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
		_, err = w.App.SetSendingLimits(ctx, req, limits)
		return limits, err
	})
}
