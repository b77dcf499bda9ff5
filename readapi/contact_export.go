package readapi

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"ledgerline/csvfile"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ExportContacts is the query of GET /v1/contacts/export.
type ExportContacts struct {
	Format        string                      `query:"format" enum:"csv" default:"csv"`
	Label         string                      `query:"label" maxLength:"64"`
	SegmentID     httpapi.Optional[uuid.UUID] `query:"segment_id"`
	ConsentStatus string                      `query:"consent_status" enum:"unknown,opted_in,opted_out"`
}

// exportContacts answers GET /v1/contacts/export.
func (a *API) exportContacts(ctx context.Context, c *httpapi.Call, in *ExportContacts) (httpapi.Download, error) {
	by := projections.ContactFilter{Label: in.Label, ConsentStatus: in.ConsentStatus}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, projections.Contacts, projections.Segments); err != nil {
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
			end, err := startSlow(ctx, a.exports, c, "exports")
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

// exportedFields are the fields of a contact that have a column in an export. The custom fields are not among them:
// their columns follow. The header uses the names of an import's target fields, so that it can be the mapping of an
// import (rule CON-42).
var exportedFields = func() []reflect.StructField {
	var fields []reflect.StructField
	for f := range reflect.TypeFor[projections.Contact]().Fields() {
		if f.Name != "Fields" {
			fields = append(fields, f)
		}
	}
	// In the file the column of the owner comes before that of the line.
	line := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Name == "AssignedLineID" })
	fields[line], fields[line+1] = fields[line+1], fields[line]
	return fields
}()

const (
	fieldPrefix = "fields."
	// otherFields is the column of the custom fields that have no column of their own, as one JSON object. An import
	// has no target for it.
	otherFields = "other_fields"
)

// contactFile writes contacts as a CSV file.
type contactFile struct {
	to     io.Writer
	csv    *csvfile.Writer // nil until Begin
	fields []string        // keys of the custom fields that have columns
	more   bool            // the file has the column other_fields
	cells  []string        // of the row that is being written
}

// Begin implements projections.ContactWriter.
func (f *contactFile) Begin(fields []string, more bool) (err error) {
	f.fields, f.more = fields, more
	var header []string
	for _, f := range exportedFields {
		header = append(header, f.Tag.Get("json"))
	}
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
	f.cells = f.cells[:0]
	row := reflect.ValueOf(c).Elem()
	for _, field := range exportedFields {
		text, err := cell(row.FieldByIndex(field.Index).Interface())
		if err != nil {
			return err
		}
		f.cells = append(f.cells, text)
	}
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

// cell formats a property as text. null and an empty object or list become ""; other objects and lists become JSON, but
// a list of texts becomes one text, as imports take labels.
func cell(property any) (string, error) {
	switch value := property.(type) {
	case string:
		return value, nil
	case *string:
		return text(value), nil
	case []string:
		return label.Join(value), nil
	}
	value := reflect.ValueOf(property)
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	kind := value.Kind()
	if kind == reflect.Invalid || (kind == reflect.Map || kind == reflect.Slice) && value.Len() == 0 {
		return "", nil
	}
	formatted, err := json.Marshal(value.Interface())
	return string(formatted), err
}

// text returns the text, and "" for null.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
