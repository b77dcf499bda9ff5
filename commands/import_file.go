package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/commands/engine"
	"ledgerline/domain/importjob"
)

// importFile is what is kept of a request while its job is under way, sealed: the data of many people, which no key of a
// single one covers, and who asked, as the evidence of consent tells it.
type importFile struct {
	CSV       string            `json:"csv"`
	Mapping   map[string]string `json:"mapping"`
	ActorType string            `json:"actor_type"`
	ActorID   string            `json:"actor_id"`
	RequestID string            `json:"request_id"`
	IP        string            `json:"ip"`
	UserAgent string            `json:"user_agent"`
}

const (
	stageSQL  = `insert into import_files (job_id, sealed) values ($1, $2)`
	stagedSQL = `select sealed from import_files where job_id = $1`
	dropSQL   = `delete from import_files where job_id = $1`
	// What was staged long ago belongs to a job, or a request died in between. The stream's name is that of importjob.Stream.
	sweepSQL = `delete from import_files f where staged_at < now() - $1::interval
		and not exists (select from ledger_events e where e.stream = 'imp_' || f.job_id)`
)

// errFileGone says that a file cannot be had any more, or not be opened.
var errFileGone = errors.New("commands: the file of the import is gone")

// stageFile keeps a file before its job is accepted: it is too large to travel with the events.
func (a *App) stageFile(ctx context.Context, id uuid.UUID, file *importFile) error {
	text, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("commands: encode a file: %w", err)
	}
	sealed, err := a.engine.Ledger.Keyring().AEAD().Encrypt(text, id[:])
	if err != nil {
		return fmt.Errorf("commands: seal a file: %w", err)
	}
	if _, err := a.engine.Ledger.Pool().Exec(ctx, stageSQL, id, sealed); err != nil {
		return engine.Unreadable(fmt.Errorf("commands: stage a file: %w", err))
	}
	return nil
}

// openFile gives the file of a job; errFileGone when there is none.
func (a *App) openFile(ctx context.Context, id uuid.UUID) (*importFile, error) {
	var sealed []byte
	err := a.engine.Ledger.Pool().QueryRow(ctx, stagedSQL, id).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errFileGone
	}
	if err != nil {
		return nil, engine.Unreadable(fmt.Errorf("commands: read a file: %w", err))
	}
	text, err := a.engine.Ledger.Keyring().AEAD().Decrypt(sealed, id[:])
	if err != nil {
		return nil, fmt.Errorf("%w: it does not open", errFileGone)
	}
	var file importFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%w: it cannot be read", errFileGone)
	}
	return &file, nil
}

// dropFile removes the file of a job. What it leaves behind when it fails, the job's next turn or the housekeeping removes.
func (a *App) dropFile(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := a.engine.Ledger.Pool().Exec(ctx, dropSQL, id); err != nil {
		a.engine.Log.Warn("the file of an import was not removed", "job", importjob.Stream(id), "error", err)
	}
}

// DeleteAbandonedImportFiles removes files that were kept for longer than age and that no job came of.
func (a *App) DeleteAbandonedImportFiles(ctx context.Context, age time.Duration) error {
	if _, err := a.engine.Ledger.Pool().Exec(ctx, sweepSQL, age); err != nil {
		return fmt.Errorf("commands: sweep files of imports: %w", err)
	}
	return nil
}
