package main

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/consent"
	"ledgerline/domain/organisation"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

type organisationComplianceCommand struct {
	installation
	ID                 uuid.UUID `arg:"" help:"The organisation."`
	RequireConsent     *bool     `help:"true: only contacts that opted in may be messaged." placeholder:"true|false"`
	QuietHours         *string   `help:"When no message leaves, in each contact's local time, for example 19:00-10:00. Must cover the platform's quiet hours; none means only those." placeholder:"HH:MM-HH:MM|none"`
	StopKeyword        []string  `help:"Word that opts out, besides the built-in ones; may be repeated. Replaces the present words." placeholder:"WORD" sep:"none" xor:"words"`
	NoStopKeywords     bool      `help:"Remove all words besides the built-in ones." xor:"words"`
	OptOutConfirmation *string   `help:"Text that answers an opt-out; an empty one means the standard text." placeholder:"TEXT"`
}

// complianceShown is the result of the command: the settings in force.
type complianceShown struct {
	OrganisationID      uuid.UUID         `json:"organisation_id"`
	QuietHours          events.QuietHours `json:"quiet_hours"`
	PlatformQuietHours  events.QuietHours `json:"platform_quiet_hours"`
	StopKeywords        []string          `json:"stop_keywords"`
	BuiltInStopKeywords []string          `json:"built_in_stop_keywords"`
	OptOutConfirmation  string            `json:"opt_out_confirmation"`
	RequireConsent      bool              `json:"require_consent"`
}

// Run implements the command.
func (c *organisationComplianceCommand) Run(ctx context.Context, con *console) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req := commands.Request{Organisation: c.ID, Actor: w.operator()}
		if change != (organisation.ComplianceChange{}) {
			if _, err := w.App.SetCompliance(ctx, req, change); err != nil {
				return nil, err
			}
		}
		org, err := w.App.FindOrganisation(ctx, req)
		return complianceShown{
			c.ID, org.Settings.EffectiveQuietHours(), rules.PlatformQuietHours(), append([]string{}, org.Settings.StopWords...), consent.StopWords(),
			org.ConfirmationText(), org.Settings.RequireConsent,
		}, err
	})
}

func (c *organisationComplianceCommand) change() (organisation.ComplianceChange, error) {
	change := organisation.ComplianceChange{RequireConsent: c.RequireConsent, OptOutConfirmation: c.OptOutConfirmation}
	if c.NoStopKeywords || len(c.StopKeyword) > 0 {
		change.StopWords = &c.StopKeyword
	}
	if c.QuietHours != nil {
		change.QuietHours = &events.QuietHours{}
		if *c.QuietHours != "none" {
			start, end, found := strings.Cut(*c.QuietHours, "-")
			if !found || start == "" || end == "" {
				return change, usage("--quiet-hours takes two times, for example 19:00-10:00, or none")
			}
			*change.QuietHours = events.QuietHours{Start: start, End: end}
		}
	}
	return change, nil
}
