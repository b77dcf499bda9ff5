package writeapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// maxImport is what the body of an import may weigh (decisions, section 3).
const maxImport = 32 << 20

// ImportContacts is the request of POST /v1/contacts/import (interface 4.1).
type ImportContacts struct {
	Body struct {
		CSV            string            `json:"csv" maxLength:"5000000" doc:"UTF-8, comma-separated, with a header and at most 50,000 rows"`
		Mapping        map[string]string `json:"mapping" nullable:"false" doc:"Header name to target: phone, first_name, last_name, company, email, labels, consent_status, fields.<key> or ignore. Exactly one column is the phone; columns that are not named are ignored"`
		Labels         []string          `json:"labels,omitempty" maxItems:"10" nullable:"false" doc:"Label names, put on every contact of the file; one that does not exist is made"`
		ConsentSource  *string           `json:"consent_source,omitempty" maxLength:"200" doc:"Where consent was given. Without it, rows that would opt somebody in are skipped. It stays on record after a contact is erased: put no personal data here"`
		UpdateExisting bool              `json:"update_existing,omitempty" default:"false" doc:"Changes contacts that exist; else their rows are skipped"`
	}
}

func (in *ImportContacts) command() commands.ImportContacts {
	b := &in.Body
	return commands.ImportContacts{CSV: b.CSV, Mapping: b.Mapping, Labels: b.Labels, ConsentSource: b.ConsentSource, UpdateExisting: b.UpdateExisting}
}

// Check implements httpapi.Checked.
func (in *ImportContacts) Check() []fault.Issue {
	command := in.command()
	_, issues := commands.CheckImport(&command)
	return issues
}

func (a *API) importContacts(ctx context.Context, c *httpapi.Call, in *ImportContacts) (httpapi.WriteResult, error) {
	command := in.command()
	if c.Idempotency != nil {
		command.Answer = func(accepted commands.ImportAccepted) ([]byte, error) {
			return json.Marshal(projections.QueuedImport(&accepted.Event, accepted.At))
		}
	}
	accepted, err := a.app.ImportContacts(ctx, request(c), command)
	d, err := done(accepted.Result, err)
	if err != nil {
		return d, err
	}
	d.Body, d.BodyStored = projections.QueuedImport(&accepted.Event, accepted.At), c.Idempotency != nil
	return d, nil
}

// importJob answers a retry whose first answer is not known any more.
func (a *API) importJob(ctx context.Context, c *httpapi.Call, d httpapi.WriteResult) (projections.ImportJob, error) {
	id, err := uuid.Parse(d.Ref)
	if err != nil {
		return projections.ImportJob{}, gone("import")
	}
	if err := a.reach(ctx, d, projections.Imports); err != nil {
		return projections.ImportJob{}, err
	}
	found, ok, err := a.store.Import(ctx, viewer(c, d.Shard), id)
	if err == nil && !ok {
		err = gone("import")
	}
	return found, err
}
