package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"ledgerline/commands/engine"
	"ledgerline/csvfile"
	"ledgerline/domain/fault"
	"ledgerline/domain/importjob"
	"ledgerline/events"
)

const (
	// importBatchRows is the number of rows in one append. More would make messages wait behind the append; fewer would
	// spend the time on round trips.
	importBatchRows = 100
	// importRunRows is the number of rows in one call of ContinueImport.
	importRunRows = 5000
)

// errImportTakenOver reports that another worker carries out rows of the same job: the lease of this one has expired.
var errImportTakenOver = errors.New("commands: another worker carries out the import")

// ContinueImport carries out the next rows of a job's file. done is true when the job has ended. Each batch of rows is
// one append together with the job's progress, so that after an interruption the next call goes on behind the last
// batch that was appended, and no row is carried out or counted twice (rule CON-49).
func (a *App) ContinueImport(ctx context.Context, id uuid.UUID) (done bool, err error) {
	job, err := a.FindImport(ctx, id)
	if err != nil {
		return false, err
	}
	if job.Finished {
		a.deleteImportFile(ctx, id)
		return true, nil
	}
	done, err = a.runImport(ctx, &job)
	if errors.Is(err, errImportFileUnusable) {
		a.engine.Log.ErrorContext(ctx, "commands: import failed", "job", importjob.Stream(id), "error", err)
		done, err = true, a.failImport(ctx, &job, "file_unreadable")
	}
	if err != nil {
		return false, err
	}
	if done {
		a.deleteImportFile(ctx, id)
	}
	return done, nil
}

// failImport ends a job that cannot go on.
func (a *App) failImport(ctx context.Context, job *importjob.Job, reason string) error {
	req := Request{Organisation: job.Organisation, Workspace: job.Workspace, Actor: events.Actor{Type: "system", ID: "import"}, Correlation: job.ID}
	_, err := a.run(ctx, req, func(ctx context.Context, u *unit) error {
		j, err := engine.Load(ctx, u.Unit, a.engine.Imports, importjob.Stream(job.ID))
		if err == nil {
			j.Record(j.State.Fail(reason)...)
		}
		return err
	})
	return err
}

// importRun carries out some batches of a job.
type importRun struct {
	app     *App
	id      uuid.UUID
	req     Request // the request that sent the file
	reader  *csvfile.Reader
	mapping importjob.Mapping
	done    int // rows that have been carried out
	total   int
}

// runImport carries out the next rows of a job; done is true when the job has ended.
func (a *App) runImport(ctx context.Context, job *importjob.Job) (done bool, err error) {
	file, err := a.readImportFile(ctx, job.ID)
	if err != nil {
		return false, err
	}
	r := &importRun{app: a, id: job.ID, done: job.Rows, total: job.TotalRows, req: Request{
		Organisation: job.Organisation, Workspace: job.Workspace, Actor: events.Actor{Type: file.ActorType, ID: file.ActorID},
		RequestID: file.RequestID, IP: file.IP, UserAgent: file.UserAgent, Test: job.IsTest, Correlation: job.ID,
	}}
	if err := r.openFile(file); err != nil { // another version of the program may have accepted the file
		return false, fmt.Errorf("%w: %w", errImportFileUnusable, err)
	}
	if err := r.start(ctx); err != nil {
		return false, err
	}
	for range importRunRows / importBatchRows {
		if done, err = r.nextBatch(ctx); err != nil || done {
			break
		}
	}
	return done, err
}

// openFile opens the file and skips the rows that have been carried out.
func (r *importRun) openFile(file *importFile) (err error) {
	if r.reader, err = csvfile.NewReader(file.CSV); err != nil {
		return err
	}
	if r.mapping, err = importjob.NewMapping(r.reader.Header(), file.Mapping); err != nil {
		return err
	}
	for range r.done {
		if _, err := r.reader.Next(); err != nil {
			return err
		}
	}
	return nil
}

// start records that the job is running.
func (r *importRun) start(ctx context.Context) error {
	_, err := r.app.run(ctx, r.req, func(ctx context.Context, u *unit) error {
		j, err := engine.Load(ctx, u.Unit, r.app.engine.Imports, importjob.Stream(r.id))
		if err == nil {
			j.Record(j.State.Start()...)
		}
		return err
	})
	return err
}

// nextBatch carries out the next rows. A batch that cannot be appended is carried out row by row, so that a row that
// cannot be stored does not stop the others.
func (r *importRun) nextBatch(ctx context.Context) (finished bool, err error) {
	rows, err := r.readRows()
	if err != nil {
		return false, err
	}
	finished, err = r.appendBatch(ctx, rows)
	if err == nil || r.mustStop(ctx, err) {
		return finished, err
	}
	r.app.engine.Log.ErrorContext(ctx, "commands: batch of an import refused", "job", importjob.Stream(r.id), "error", err)
	for _, row := range rows {
		if finished, err = r.appendBatch(ctx, []importjob.Row{row}); err == nil {
			continue
		}
		if r.mustStop(ctx, err) {
			return false, err
		}
		failed := importjob.Row{Number: row.Number, Problem: "The row could not be stored."}
		if finished, err = r.appendBatch(ctx, []importjob.Row{failed}); err != nil {
			return false, err
		}
	}
	return finished, nil
}

// mustStop reports whether an error says nothing about the rows: the run was interrupted, the ledger is out of reach,
// or another worker has taken over.
func (r *importRun) mustStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil || fault.Is(err, fault.Unavailable) || errors.Is(err, errImportTakenOver)
}

// readRows reads the rows of the next batch.
func (r *importRun) readRows() ([]importjob.Row, error) {
	rows := make([]importjob.Row, 0, importBatchRows)
	for len(rows) < importBatchRows {
		row, err := r.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errImportFileUnusable, err)
		}
		rows = append(rows, r.mapping.Read(row.Number, row.Cells, row.Width))
	}
	if len(rows) == 0 && r.done < r.total {
		return nil, fmt.Errorf("%w: it has fewer rows than when it was accepted", errImportFileUnusable)
	}
	return rows, nil
}

// appendBatch appends what the rows change, together with the job's progress. finished is true when these were the last
// rows.
func (r *importRun) appendBatch(ctx context.Context, rows []importjob.Row) (finished bool, err error) {
	_, err = r.app.run(ctx, r.req, func(ctx context.Context, u *unit) error {
		u.SkipCache = true
		j, err := engine.Load(ctx, u.Unit, r.app.engine.Imports, importjob.Stream(r.id))
		if err != nil {
			return err
		}
		if j.State.Rows != r.done || j.State.Finished {
			if !u.Fresh {
				return engine.ErrInconsistent
			}
			return errImportTakenOver
		}
		b := &importBatch{unit: u, job: &j.State, labelIDs: map[string]uuid.UUID{}}
		if err := b.load(ctx, rows); err != nil {
			return err
		}
		for i := range rows {
			if err := b.importRow(ctx, &rows[i]); err != nil {
				return err
			}
		}
		j.Record(j.State.Progress(b.Batch)...)
		finished = j.State.Finished
		return nil
	})
	if err != nil {
		return false, err
	}
	r.done += len(rows)
	return finished, nil
}
