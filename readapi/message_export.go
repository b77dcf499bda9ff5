package readapi

import (
	"context"
	"io"
	"reflect"
	"time"

	"ledgerline/csvfile"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// ExportMessages is the query of GET /v1/messages/export: the filters of the list.
type ExportMessages struct {
	Format string `query:"format" enum:"csv" default:"csv"`
	MessageFilter
}

// exportMessages answers GET /v1/messages/export.
func (a *API) exportMessages(ctx context.Context, c *httpapi.Call, in *ExportMessages) (httpapi.Download, error) {
	by, err := in.filter()
	if err != nil {
		return httpapi.Download{}, err
	}
	v := a.viewer(c)
	if err := a.store.WaitForHead(ctx, v.Shard, listedMessages...); err != nil {
		return httpapi.Download{}, err
	}
	return httpapi.Download{
		ContentType: "text/csv; charset=utf-8; header=present",
		Filename:    "messages-" + a.store.Ledger().Now().Format(time.DateOnly) + ".csv",
		Write: func(w io.Writer) error {
			end, err := startSlow(ctx, a.exports, c, "exports")
			if err != nil {
				return err
			}
			defer end()
			return a.writeMessages(ctx, w, v, by)
		},
	}, nil
}

// messageColumns are the columns of an export: the properties of a message.
var messageColumns = func() []string {
	var names []string
	for f := range reflect.TypeFor[projections.Message]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	return names
}()

// writeMessages writes all messages that fit the filters as CSV.
func (a *API) writeMessages(ctx context.Context, w io.Writer, v projections.Viewer, by projections.MessageFilter) error {
	file, err := csvfile.NewWriter(w, messageColumns...)
	if err != nil {
		return err
	}
	cells := make([]string, len(messageColumns))
	err = a.store.ExportMessages(ctx, v, by, func(m *projections.Message) (err error) {
		row := reflect.ValueOf(m).Elem()
		for i := range cells {
			if cells[i], err = cell(row.Field(i).Interface()); err != nil {
				return err
			}
		}
		return file.Write(cells...)
	})
	if err != nil {
		return err
	}
	return file.Flush()
}
