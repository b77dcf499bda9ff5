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
	// overlap is how much is read again by each poll, in milliseconds: a Mac that slept gets older messages later.
	overlap = 10 * 60 * 1000
	// openBatch is how many messages a poll asks for receipts.
	openBatch = 100
	// pollers is how many servers are polled at the same time.
	pollers = 8
	// pollTimeout bounds one poll of a server.
	pollTimeout = 5 * time.Minute
)

// Run polls the servers until ctx ends: for messages from contacts, for receipts, and for their webhook subscriptions.
func (a *Adapter) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		a.pollAll(ctx)
		pause(ctx, a.cfg.Poll)
	}
	return nil
}

// pollAll polls every server that is due.
func (a *Adapter) pollAll(ctx context.Context) {
	lines, err := a.cfg.Lines.Lines(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.cfg.Logger.Warn("bluebubbles: the lines could not be read", "error", err)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(pollers)
	for _, lineID := range lines {
		group.Go(func() error {
			switch err := a.Poll(ctx, lineID); {
			case err == nil:
				a.failed.Remove(lineID)
			case ctx.Err() == nil:
				a.logRefusal(lineID, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if _, err := a.cfg.Pool.Exec(ctx, pruneSQL); err != nil && ctx.Err() == nil {
		a.cfg.Logger.Warn("bluebubbles: old records were not removed", "error", err)
	}
}

// Poll polls the server of a line, unless a poll started within the poll interval.
func (a *Adapter) Poll(ctx context.Context, lineID string) error {
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
	switch err := a.cfg.Pool.QueryRow(ctx, startPollSQL, lineID, a.cfg.Poll.Seconds()).Scan(&since, &seen); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("bluebubbles: poll: %w", err)
	}
	return errors.Join(a.subscribe(ctx, account), a.readNew(ctx, account, since, seen), a.readOpen(ctx, account))
}

// readNew handles the messages since the last poll. It records as read only what the Inbox has accepted.
func (a *Adapter) readNew(ctx context.Context, account Account, since, seen int64) error {
	newest := seen
	for offset := 0; ; offset += pageSize {
		list, err := a.messages(ctx, account, max(seen-overlap, since), offset, pageSize)
		for i := range list {
			if err = a.handle(ctx, account, &list[i], list[i].Created >= since); err != nil {
				break
			}
			newest = max(newest, list[i].Created)
		}
		if _, recordErr := a.cfg.Pool.Exec(ctx, seenSQL, account.LineID, newest); err == nil && recordErr != nil {
			err = fmt.Errorf("bluebubbles: poll: %w", recordErr)
		}
		if err != nil {
			return err
		}
		if len(list) < pageSize {
			return a.recordRead(ctx, account.LineID)
		}
	}
}

// recordRead records that all messages were read that there were when the poll began.
func (a *Adapter) recordRead(ctx context.Context, lineID string) error {
	if _, err := a.cfg.Pool.Exec(ctx, readSQL, lineID); err != nil {
		return fmt.Errorf("bluebubbles: poll: %w", err)
	}
	return nil
}

// ReadAgain implements carrier.Reader.
func (a *Adapter) ReadAgain(ctx context.Context, since time.Time) error {
	if _, err := a.cfg.Pool.Exec(ctx, readAgainSQL, since.UnixMilli()); err != nil {
		return fmt.Errorf("bluebubbles: read again: %w", err)
	}
	return nil
}

// Unread implements carrier.Reader.
func (a *Adapter) Unread(ctx context.Context, since time.Time) ([]string, error) {
	lines, err := a.cfg.Lines.Lines(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := a.cfg.Pool.Query(ctx, unreadSQL, lines, since)
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: unread lines: %w", err)
	}
	unread, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("bluebubbles: unread lines: %w", err)
	}
	return unread, nil
}

// readOpen reads the receipts of messages that are not known to be read or failed.
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
			err = a.handle(ctx, account, &m, false)
		}
		refused := (*answerError)(nil)
		if errors.As(err, &refused) && refused.status == http.StatusNotFound {
			continue // deleted on the Mac
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

// subscribe makes the server post its webhooks to us, and removes subscriptions with an earlier secret.
func (a *Adapter) subscribe(ctx context.Context, account Account) error {
	if a.cfg.BaseURL == "" {
		a.noBaseURL.Do(func() {
			a.cfg.Logger.Warn("bluebubbles: without a base URL servers cannot post webhooks, they are only polled", "line_id", account.LineID)
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
