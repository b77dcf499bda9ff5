package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/organisation"
	"ledgerline/events"
	"ledgerline/eventstore"
	"ledgerline/service"
)

// exportCommand prints the events of a workspace.
type exportCommand struct {
	installation
	Workspace        uuid.UUID `help:"The workspace." required:"" placeholder:"UUID"`
	OpenPersonalData bool      `help:"Include personal data: names, numbers, texts. Erased data cannot be shown."`
	From             string    `help:"Events from this time on (RFC 3339)." placeholder:"TIME"`
	To               string    `help:"Events before this time." placeholder:"TIME"`
}

// exported is one line of the export.
type exported struct {
	Shard          int             `json:"shard"`
	Position       int64           `json:"position"`
	ID             uuid.UUID       `json:"id"`
	Stream         string          `json:"stream"`
	Version        int             `json:"version"`
	Type           string          `json:"type"`
	Schema         int             `json:"schema"`
	OrganisationID uuid.UUID       `json:"organisation_id"`
	WorkspaceID    uuid.UUID       `json:"workspace_id"`
	OccurredAt     time.Time       `json:"occurred_at"`
	Actor          events.Actor    `json:"actor"`
	RequestID      string          `json:"request_id"`
	CausationID    *uuid.UUID      `json:"causation_id"`
	CorrelationID  uuid.UUID       `json:"correlation_id"`
	Data           json.RawMessage `json:"data"`
	// PersonalData is none, sealed (not requested), open or erased.
	PersonalData string `json:"personal_data"`
	Personal     any    `json:"personal,omitempty"`
}

// exportBatch is how many positions are read at a time.
const exportBatch = 1000

// Run implements the command.
func (c *exportCommand) Run(ctx context.Context, con *console) error {
	from, to, err := c.window()
	if err != nil {
		return err
	}
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	org, _, err := w.owner(ctx, organisation.WorkspaceStream(c.Workspace), "workspace")
	if err != nil {
		return err
	}
	shard := w.Ledger.ShardOf(org)
	head, err := w.Ledger.Head(ctx, shard)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(con.out)
	lines := json.NewEncoder(out)
	progress := con.progressOf("export")
	for after := int64(0); after < head; after += exportBatch {
		recorded, err := w.Ledger.ReadRange(ctx, shard, after, min(after+exportBatch, head))
		if err != nil {
			return err
		}
		kept := recorded[:0]
		for i := range recorded {
			r := &recorded[i]
			if r.WorkspaceID == c.Workspace && !r.OccurredAt.Before(from) && (to.IsZero() || r.OccurredAt.Before(to)) {
				kept = append(kept, *r)
			}
		}
		if err := w.Ledger.Decode(ctx, kept); err != nil {
			return err
		}
		if progress != nil {
			progress(after, head)
		}
		for i := range kept {
			if err := lines.Encode(c.line(&kept[i])); err != nil {
				return fmt.Errorf("write the export: %w", err)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// window parses --from and --to; a zero time means that there is no bound.
func (c *exportCommand) window() (from, to time.Time, err error) {
	for _, bound := range []struct {
		flag, text string
		into       *time.Time
	}{{"--from", c.From, &from}, {"--to", c.To, &to}} {
		if bound.text == "" {
			continue
		}
		if *bound.into, err = time.Parse(time.RFC3339Nano, bound.text); err != nil {
			return from, to, usage("%s %q is not a time in RFC 3339", bound.flag, bound.text)
		}
	}
	return from, to, nil
}

func (c *exportCommand) line(r *eventstore.Recorded) exported {
	e := exported{
		Shard: r.Shard, Position: r.Position, ID: r.ID, Stream: r.Stream, Version: r.Version, Type: r.Type, Schema: r.Schema,
		OrganisationID: r.OrganisationID, WorkspaceID: r.WorkspaceID, OccurredAt: r.OccurredAt, Actor: r.Actor,
		RequestID: r.RequestID, CorrelationID: r.CorrelationID, Data: r.Data, PersonalData: "none",
	}
	if r.CausationID != uuid.Nil {
		e.CausationID = &r.CausationID
	}
	_, secret := r.Event.(events.Credential)
	switch sealed, holds := r.Event.(events.Sealed); {
	case r.Erased:
		e.PersonalData = "erased"
	case r.Sealed == nil:
	case c.OpenPersonalData && holds && !secret:
		e.PersonalData, e.Personal = "open", sealed.Personal()
	default:
		e.PersonalData = "sealed"
	}
	return e
}
