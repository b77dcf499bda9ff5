package readapi

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"

	"ledgerline/csvfile"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ExportContacts is the query of GET /v1/contacts/export (interface 4.1).
type ExportContacts struct {
	Format        string                      `query:"format" enum:"csv" default:"csv"`
	Label         string                      `query:"label" maxLength:"64"`
	SegmentID     httpapi.Optional[uuid.UUID] `query:"segment_id"`
	ConsentStatus string                      `query:"consent_status" enum:"unknown,opted_in,opted_out"`
}

const (
	// exportsAtOnce is how many exports a node runs; each holds a connection to the database.
	exportsAtOnce = 4
	// exportPatience is how long one more waits for its turn, before the client is asked to come back.
	exportPatience = 10 * time.Second
)

func (a *API) exportContacts(ctx context.Context, c *httpapi.Call, in *ExportContacts) (httpapi.Download, error) {
	by := projections.ContactFilter{Label: in.Label, ConsentStatus: in.ConsentStatus}
	v := a.viewer(c)
	if err := a.store.Current(ctx, v.Shard, projections.Contacts, projections.Segments); err != nil {
		return httpapi.Download{}, err
	}
	issues, err := a.segmentIssues(ctx, v, in.SegmentID, &by)
	if err != nil {
		return httpapi.Download{}, err
	}
	if len(issues) > 0 {
		return httpapi.Download{}, fault.Invalids(issues...)
	}
	return httpapi.Download{
		ContentType: "text/csv; charset=utf-8; header=present",
		Filename:    "contacts-" + a.store.Ledger().Now().Format(time.DateOnly) + ".csv",
		Write: func(w io.Writer) error {
			end, err := a.exportTurn(ctx)
			if err != nil {
				return err
			}
			defer end()
			file := &contactFile{to: w}
			if err := a.store.ExportContacts(ctx, v, by, file); err != nil {
				return err
			}
			return file.csv.Flush()
		},
	}, nil
}

// exportTurn waits for a place among the exports that run; end gives it back.
func (a *API) exportTurn(ctx context.Context) (end func(), err error) {
	patience := time.NewTimer(exportPatience)
	defer patience.Stop()
	select {
	case a.exports <- struct{}{}:
		return func() { <-a.exports }, nil
	case <-patience.C:
		busy := fault.New(fault.Unavailable, "Too many exports are running. Try again shortly.")
		busy.RetryAfter = exportPatience
		return nil, busy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// contactColumns are the columns of an export in front of the custom fields. Those that an import understands have the name
// that its mapping gives them, so that the header is its own mapping.
var contactColumns = []string{
	"id", "phone", "first_name", "last_name", "company", "email", "labels", "consent_status", "consent_at", "consent_source",
	"owner_user_id", "assigned_line_id", "chat_capable", "capability_checked_at", "first_reply_at", "last_inbound_at", "last_outbound_at",
	"created_at", "updated_at",
}

const (
	fieldPrefix = "fields."
	// otherFields is the column with what has no column of its own, as one JSON object. An import has no target for it.
	otherFields = "other_fields"
)

// contactFile writes contacts as a CSV file.
type contactFile struct {
	to     io.Writer
	csv    *csvfile.Writer
	fields []string
	more   bool
	cells  []string
}

// Begin implements projections.ContactWriter.
func (f *contactFile) Begin(fields []string, more bool) (err error) {
	f.fields, f.more = fields, more
	header := append([]string(nil), contactColumns...)
	for _, key := range fields {
		header = append(header, fieldPrefix+key)
	}
	if more {
		header = append(header, otherFields)
	}
	f.csv, err = csvfile.NewWriter(f.to, header...)
	return err
}

// Contact implements projections.ContactWriter.
func (f *contactFile) Contact(c *projections.Contact) error {
	f.cells = append(f.cells[:0],
		c.ID, c.Phone, text(c.FirstName), text(c.LastName), text(c.Company), text(c.Email), label.Join(c.Labels), c.ConsentStatus,
		text(c.ConsentAt), text(c.ConsentSource), text(c.OwnerUserID), text(c.AssignedLineID), yesNo(c.ChatCapable),
		text(c.CapabilityCheckedAt), text(c.FirstReplyAt), text(c.LastInboundAt), text(c.LastOutboundAt), c.CreatedAt, c.UpdatedAt)
	for _, key := range f.fields {
		f.cells = append(f.cells, contact.FieldText(c.Fields[key]))
		delete(c.Fields, key)
	}
	if f.more {
		others := ""
		if len(c.Fields) > 0 {
			rest, err := json.Marshal(c.Fields)
			if err != nil {
				return err
			}
			others = string(rest)
		}
		f.cells = append(f.cells, others)
	}
	return f.csv.Write(f.cells...)
}

// text is a cell; what is null is empty.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func yesNo(value *bool) string {
	if value == nil {
		return ""
	}
	return strconv.FormatBool(*value)
}
