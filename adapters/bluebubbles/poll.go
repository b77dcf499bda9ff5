package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// overlap is read again each time, in milliseconds: a Mac that slept gets messages with earlier times later.
	overlap = 10 * 60 * 1000
	// openBatch is for how many messages receipts are asked at a time.
	openBatch = 100
	// atOnce is how many servers are read at once.
	atOnce = 8
	// pollTimeout bounds one reading of a server.
	pollTimeout = 5 * time.Minute
)

// Run reads after the servers until ctx ends: messages from contacts, receipts, and whether they still report to us.
func (a *Adapter) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		a.round(ctx)
		pause(ctx, a.cfg.Poll)
	}
	return nil
}

// round reads every server whose turn it is.
func (a *Adapter) round(ctx context.Context) {
	lines, err := a.cfg.Lines.Lines(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.cfg.Logger.Warn("bluebubbles: which lines there are is not known", "error", err)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, lineID := range lines {
		group.Go(func() error {
			switch err := a.Read(ctx, lineID); {
			case err == nil:
				a.failed.Remove(lineID)
			case ctx.Err() == nil:
				a.complain(lineID, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if _, err := a.cfg.Pool.Exec(ctx, pruneSQL); err != nil && ctx.Err() == nil {
		a.cfg.Logger.Warn("bluebubbles: old messages are not forgotten", "error", err)
	}
}

// Read reads after one line's server, unless it was read within the poll interval.
func (a *Adapter) Read(ctx context.Context, lineID string) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	account, err := a.cfg.Lines.Account(ctx, lineID)
	if errors.Is(err, ErrNoAccount) {
		return nil
	}
	if err != nil {
		return err
	}
	var since, seen int64
	switch err := a.cfg.Pool.QueryRow(ctx, takePollSQL, lineID, a.cfg.Poll.Seconds()).Scan(&since, &seen); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("bluebubbles: poll: %w", err)
	}
	return errors.Join(a.subscribe(ctx, account), a.readNew(ctx, account, since, seen), a.readOpen(ctx, account))
}

// readNew takes the messages since the last time. It goes no further than what the Inbox has taken.
func (a *Adapter) readNew(ctx context.Context, account Account, since, seen int64) error {
	newest := seen
	for offset := 0; ; offset += pageSize {
		list, err := a.messages(ctx, account, max(seen-overlap, since), offset, pageSize)
		for i := range list {
			if err = a.take(ctx, account, &list[i], list[i].Created >= since); err != nil {
				break
			}
			newest = max(newest, list[i].Created)
		}
		if _, noted := a.cfg.Pool.Exec(ctx, seenSQL, account.LineID, newest); err == nil && noted != nil {
			err = fmt.Errorf("bluebubbles: poll: %w", noted)
		}
		if err != nil || len(list) < pageSize {
			return err
		}
	}
}

// readOpen asks for the receipts of messages that have not been read yet.
func (a *Adapter) readOpen(ctx context.Context, account Account) error {
	rows, err := a.cfg.Pool.Query(ctx, openSQL, account.LineID, openBatch)
	if err != nil {
		return fmt.Errorf("bluebubbles: open messages: %w", err)
	}
	guids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("bluebubbles: open messages: %w", err)
	}
	for _, guid := range guids {
		m, err := a.message(ctx, account, guid)
		if err == nil {
			err = a.take(ctx, account, &m, false)
		}
		refused := (*answerError)(nil)
		if errors.As(err, &refused) && refused.status == http.StatusNotFound {
			continue // deleted at the Mac
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *Adapter) message(ctx context.Context, account Account, guid string) (m wireMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	err = a.query(ctx, account, http.MethodGet, "message/"+url.PathEscape(guid), nil, nil, &m)
	return m, err
}

// subscribe has the server report to us, and takes back where it reported to with an earlier secret.
func (a *Adapter) subscribe(ctx context.Context, account Account) error {
	if a.cfg.BaseURL == "" {
		a.unreached.Do(func() {
			a.cfg.Logger.Warn("bluebubbles: without a base URL no server is told where to report", "line_id", account.LineID)
		})
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	base := strings.TrimSuffix(a.cfg.BaseURL, "/")
	wanted, ours := base+ReportPath(account.LineID, account.Secret), base+ReportPath(account.LineID, "")
	var there []struct {
		ID  int    `json:"id"`
		URL string `json:"url"`
	}
	if err := a.query(ctx, account, http.MethodGet, "webhook", nil, nil, &there); err != nil {
		return err
	}
	found := false
	for _, hook := range there {
		switch {
		case hook.URL == wanted:
			found = true
		case strings.HasPrefix(hook.URL, ours):
			if err := a.query(ctx, account, http.MethodDelete, "webhook/"+strconv.Itoa(hook.ID), nil, nil, nil); err != nil {
				return err
			}
		}
	}
	if found {
		return nil
	}
	return a.query(ctx, account, http.MethodPost, "webhook", nil, map[string]any{"url": wanted, "events": []string{reportNew, reportChanged, reportFailed}}, nil)
}
