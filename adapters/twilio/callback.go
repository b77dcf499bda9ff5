package twilio

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/processes/carrier"
)

// callback is a report on the status of a message of ours.
type callback struct {
	ConnectionID string
	SID          string
	Status       string // as the provider calls it
	ErrorCode    string // "" for none
}

// receipt is the callback as a receipt; false for a status that says nothing more than the provider's answer.
func (c *callback) receipt(messageID string) (carrier.Receipt, bool) {
	r := carrier.Receipt{MessageID: messageID, CarrierID: c.SID}
	switch c.Status {
	case "delivered", "read":
		r.Kind = carrier.ReceiptDelivered
	case "undelivered", "failed":
		r.Kind, r.Code = carrier.ReceiptFailed, "sms_"+c.ErrorCode
		if c.ErrorCode == "" {
			r.Code = "sms_undelivered"
		}
	default:
		return carrier.Receipt{}, false
	}
	return r, true
}

// maxSID bounds the texts of a callback that are stored.
const maxSID = 64

// serveCallback records a status, or keeps it until it can be recorded. A nil error means that it is not lost.
func (a *Adapter) serveCallback(ctx context.Context, c *callback) error {
	if _, says := c.receipt(""); !says || c.SID == "" || len(c.SID) > maxSID || len(c.ErrorCode) > maxSID {
		return nil
	}
	recorded, err := a.record(ctx, c)
	if recorded {
		return nil
	}
	if keepErr := a.keep(ctx, c); keepErr != nil {
		return keepErr
	}
	if err != nil {
		a.cfg.Logger.Warn("twilio: a status callback was kept for later", "connection_id", c.ConnectionID, "error", err)
	}
	return nil
}

// record records a status in the ledger; false while the message is not known.
func (a *Adapter) record(ctx context.Context, c *callback) (bool, error) {
	messageID, err := a.messageOf(ctx, c.ConnectionID, c.SID)
	if err != nil || messageID == "" {
		return false, err
	}
	r, _ := c.receipt(messageID)
	if err := a.cfg.Inbox.Receipt(ctx, r); err != nil {
		return false, err
	}
	return true, nil
}

// Run records kept callbacks when their messages are known, and removes what is old, until ctx ends.
func (a *Adapter) Run(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Poll)
	defer tick.Stop()
	const pruneEvery = 1200 // ticks
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := a.recordKept(ctx)
		if err == nil && n%pruneEvery == 0 {
			err = a.prune(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.cfg.Logger.Warn("twilio: kept callbacks were not recorded", "error", err)
		}
	}
}

func (a *Adapter) recordKept(ctx context.Context) error {
	rows, err := a.cfg.Pool.Query(ctx, dueSQL)
	if err != nil {
		return fmt.Errorf("twilio: read kept callbacks: %w", err)
	}
	kept, err := pgx.CollectRows(rows, pgx.RowToStructByPos[callback])
	if err != nil {
		return fmt.Errorf("twilio: read kept callbacks: %w", err)
	}
	for i := range kept {
		c := &kept[i]
		recorded, err := a.record(ctx, c)
		if err != nil {
			return err
		}
		if recorded {
			if _, err := a.cfg.Pool.Exec(ctx, dropSQL, c.ConnectionID, c.SID, c.Status); err != nil {
				return fmt.Errorf("twilio: drop callback: %w", err)
			}
		}
	}
	return nil
}

// prune removes callbacks for messages that never became known, and what is remembered of old messages.
func (a *Adapter) prune(ctx context.Context) error {
	if _, err := a.cfg.Pool.Exec(ctx, pruneKeptSQL); err != nil {
		return fmt.Errorf("twilio: prune: %w", err)
	}
	if _, err := a.cfg.Pool.Exec(ctx, pruneSQL); err != nil {
		return fmt.Errorf("twilio: prune: %w", err)
	}
	return nil
}
