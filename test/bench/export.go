package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"ledgerline/service"
)

// exported is how many contacts are exported.
const exported = 1_000_000

const (
	// Address books differ; this one has names, an e-mail address and a note that needs quotes for half of them, a few
	// fields and two labels each.
	exportLabelsSQL = `insert into read.labels (id, workspace_id, name, folded_name, created_at)
		select ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, $1, 'Label ' || i, 'label ' || i, now() from generate_series(1, 20) i`
	exportContactsSQL = `insert into read.contacts (id, workspace_id, position, number_hash, phone, first_name, last_name, company, email, fields, consent_status,
			has_conversation, created_at, updated_at, folded_fields, instants)
		select 'ctc_' || lpad(i::text, 26, '0'), $1, $3 - i, 'hash' || i, '+1415' || lpad(i::text, 7, '0'), 'First ' || i, 'Last ' || i,
			case when i % 2 = 0 then 'Company, "' || i || '"' end, 'contact' || i || '@example.com',
			jsonb_build_object('plan', case when i % 3 = 0 then 'gold' else 'free' end, 'since', i % 20 + 2000, 'city', 'City ' || i % 100), 'opted_in',
			false, $2::timestamptz - i * interval '1 second', now(), '{}', '{}'
		from generate_series(1, $3::int) i`
	exportLabelledSQL = `insert into read.contact_labels (contact_id, label_id)
		select 'ctc_' || lpad(i::text, 26, '0'), ('00000000-0000-0000-0000-' || lpad((1 + (i + n) % 20)::text, 12, '0'))::uuid
		from generate_series(1, $1::int) i, generate_series(0, 1) n`
	// The raw baseline: the same rows as PostgreSQL itself writes CSV.
	exportRawSQL = `copy (select c.*, array(select l.name from read.contact_labels cl join read.labels l on l.id = cl.label_id
		where cl.contact_id = c.id order by l.folded_name) from read.contacts c where c.workspace_id = '%s' order by c.position desc) to stdout with csv`
)

// measureExport exports an address book of a million, over HTTP, and watches the heap.
func measureExport(ctx context.Context, b *bench) error {
	s, err := b.site(ctx, service.All)
	if err != nil {
		return err
	}
	defer s.Stop()
	b.say(fmt.Sprintf("writing %d contacts", exported))
	restore, err := s.dropSearchIndex(ctx)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{exportLabelsSQL, []any{s.wsp}}, {exportLabelledSQL, []any{exported}}, {exportContactsSQL, []any{s.wsp, time.Now(), exported}}, {restore, nil}, {"vacuum analyze", nil}, {"checkpoint", nil},
	} {
		if _, err := s.pool.Exec(ctx, q.sql, q.args...); err != nil {
			return err
		}
	}
	address, done, err := listen(ctx, s.Handler())
	if err != nil {
		return err
	}
	defer done()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	_, err = conn.Conn().PgConn().CopyTo(ctx, io.Discard, fmt.Sprintf(exportRawSQL, s.wsp))
	raw := exported / time.Since(started).Seconds()
	conn.Release()
	if err != nil {
		return err
	}
	runtime.GC()
	peak := watchHeap()
	started = time.Now()
	rows, first, err := download(ctx, "http://"+address+"/v1/contacts/export", s.secret)
	took, highest := time.Since(started), peak()
	if err != nil {
		return err
	}
	if rows != exported+1 {
		return fmt.Errorf("the export has %d lines", rows)
	}
	b.report(Figure{Measurement: "export", What: fmt.Sprintf("GET /v1/contacts/export, %d contacts, against COPY", exported), Value: exported / took.Seconds(), Unit: "contacts/s", Baseline: raw})
	b.report(Figure{Measurement: "export", What: "time to its first byte", Value: first.Seconds(), Unit: "s"})
	b.report(Figure{Measurement: "export", What: "peak heap of the whole node meanwhile", Value: float64(highest) / (1 << 20), Unit: "MiB", Goal: "under 100"})
	return nil
}

// download reads an answer to its end and counts its lines.
func download(ctx context.Context, url, secret string) (lines int, first time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	started := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("the export answered %s", response.Status)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(buffer)
		if first == 0 && n > 0 {
			first = time.Since(started)
		}
		lines += bytes.Count(buffer[:n], []byte("\n"))
		if err == io.EOF {
			return lines, first, nil
		}
		if err != nil {
			return lines, first, err
		}
	}
}

// watchHeap samples the heap in use until the returned function is called, which returns the maximum.
func watchHeap() (peak func() uint64) {
	stop, highest := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-tick.C:
			case <-stop:
				highest <- most
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-highest }
}
