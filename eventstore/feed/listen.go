package feed

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ledgerline/eventstore"
)

const (
	headChannel  = "ledger_head"
	movedChannel = "feed_moved"
	listenSQL    = `listen ` + headChannel + `; listen ` + movedChannel
)

// Listen follows the notifications of other processes until ctx ends, on a connection of its own: heads that moved
// wake the consumers, checkpoints that moved wake those who wait for them. It reconnects by itself, and looks at
// everything again when it does.
func Listen(ctx context.Context, ledger *eventstore.Ledger, progress *Progress, log *slog.Logger) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		started := time.Now()
		err := listen(ctx, ledger, progress)
		if ctx.Err() != nil {
			return
		}
		log.Warn("feed: lost the notifications, connecting again", "error", err)
		if time.Since(started) > 10*time.Second {
			pause = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func listen(ctx context.Context, ledger *eventstore.Ledger, progress *Progress) error {
	conn, err := pgx.ConnectConfig(ctx, ledger.Pool().Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return err
	}
	var epoch int64
	if err := conn.QueryRow(ctx, `select `+epochSQL).Scan(&epoch); err != nil {
		return err
	}
	progress.SetEpoch(epoch)
	for shard := range ledger.Shards() {
		if _, err := ledger.Head(ctx, shard); err != nil {
			return err
		}
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		fields := strings.Split(n.Payload, ":")
		switch {
		case n.Channel == headChannel && len(fields) == 2:
			ledger.AdvanceHead(number(fields[0]), int64(number(fields[1])))
		case n.Channel == movedChannel:
			for _, one := range strings.Split(n.Payload, ",") {
				if fields := strings.Split(one, ":"); len(fields) == 3 {
					progress.set(fields[0], number(fields[1]), int64(number(fields[2])))
				}
			}
		}
	}
}

// PublishProgress tells other processes, until ctx ends, what the consumers of this one have passed over: a notification, no
// write. What comes together is told together.
func PublishProgress(ctx context.Context, ledger *eventstore.Ledger, progress *Progress, log *slog.Logger) {
	const most = 7000 // bytes; a notification takes 8000
	for {
		select {
		case <-ctx.Done():
			return
		case <-progress.tell:
		}
		var payload strings.Builder
		send := func() {
			if payload.Len() == 0 {
				return
			}
			if _, err := ledger.Pool().Exec(ctx, movedSQL, payload.String()); err != nil && ctx.Err() == nil {
				log.Warn("feed: others were not told of progress; they will ask", "error", err)
			}
			payload.Reset()
		}
		for at, position := range progress.untold() {
			if payload.Len() > most {
				send()
			}
			if payload.Len() > 0 {
				payload.WriteByte(',')
			}
			payload.WriteString(at.consumer + ":" + strconv.Itoa(at.shard) + ":" + strconv.FormatInt(position, 10))
		}
		send()
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
