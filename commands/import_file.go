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

// importFile is what is stored of an import request until its job ends (rule CON-51): the file, and the caller, whom
// the evidence of consent names. It is encrypted as a whole, since it holds data of many contacts.
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
	insertImportFileSQL = `insert into import_files (job_id, sealed) values ($1, $2)`
	selectImportFileSQL = `select sealed from import_files where job_id = $1`
	deleteImportFileSQL = `delete from import_files where job_id = $1`
	// The name of the stream is that of importjob.Stream.
	deleteAbandonedImportFilesSQL = `delete from import_files f where staged_at < now() - $1::interval
		and not exists (select from ledger_events e where e.stream = 'imp_' || f.job_id)`
)

// errImportFileUnusable reports that the file of a job is missing or cannot be decrypted or read.
var errImportFileUnusable = errors.New("commands: the file of the import cannot be used")

func (a *App) storeImportFile(ctx context.Context, id uuid.UUID, file *importFile) error {
	text, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("commands: encode an import file: %w", err)
	}
	sealed, err := a.engine.Ledger.Keyring().AEAD().Encrypt(text, id[:])
	if err != nil {
		return fmt.Errorf("commands: encrypt an import file: %w", err)
	}
	if _, err := a.engine.Ledger.DB(ctx).Exec(ctx, insertImportFileSQL, id, sealed); err != nil {
		return engine.Unreadable(fmt.Errorf("commands: store an import file: %w", err))
	}
	return nil
}

// readImportFile returns the file of a job, or an error that wraps errImportFileUnusable.
func (a *App) readImportFile(ctx context.Context, id uuid.UUID) (*importFile, error) {
	var sealed []byte
	err := a.engine.Ledger.DB(ctx).QueryRow(ctx, selectImportFileSQL, id).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: it is missing", errImportFileUnusable)
	}
	if err != nil {
		return nil, engine.Unreadable(fmt.Errorf("commands: read an import file: %w", err))
	}
	text, err := a.engine.Ledger.Keyring().AEAD().Decrypt(sealed, id[:])
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be decrypted", errImportFileUnusable)
	}
	var file importFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%w: it cannot be decoded", errImportFileUnusable)
	}
	return &file, nil
}

// deleteImportFile deletes the file of a job. A file that cannot be deleted now is deleted by the job's next run or by
// DeleteAbandonedImportFiles.
func (a *App) deleteImportFile(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := a.engine.Ledger.DB(ctx).Exec(ctx, deleteImportFileSQL, id); err != nil {
		a.engine.Log.WarnContext(ctx, "commands: file of an import not deleted", "job", importjob.Stream(id), "error", err)
	}
}

// DeleteAbandonedImportFiles deletes files that are older than age and have no job: their request ended before the job
// was accepted.
func (a *App) DeleteAbandonedImportFiles(ctx context.Context, age time.Duration) error {
	if _, err := a.engine.Ledger.DB(ctx).Exec(ctx, deleteAbandonedImportFilesSQL, age); err != nil {
		return fmt.Errorf("commands: delete abandoned import files: %w", err)
	}
	return nil
}
