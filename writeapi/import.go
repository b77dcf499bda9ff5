package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// maxImport is the largest body of an import, in bytes (rule API-26).
const maxImport = 32 << 20

// ImportContacts is the request of POST /v1/contacts/import.
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
	body := func(i commands.AcceptedImport) projections.ImportJob { return projections.QueuedImport(&i.Event, i.At) }
	command := in.command()
	command.Answer = recordedBody(c, body)
	accepted, err := a.app.ImportContacts(ctx, request(c), command)
	return resultWithBody(c, accepted.Result, accepted, body, err)
}

func (a *API) imports() resource[projections.ImportJob] {
	return resource[projections.ImportJob]{a.store, "import", byUUID(a.store.Import), consumers(projections.Imports)}
}
