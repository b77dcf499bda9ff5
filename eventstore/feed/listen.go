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

// Listen receives the notifications of other processes until ctx ends, on a connection of its own: new heads of shards,
// which wake the consumers, and new checkpoints, which go to progress. After a broken connection it connects again and
// reads the heads, so that no notification is missed for good, and a history that went back is found.
func Listen(ctx context.Context, ledger *eventstore.Ledger, progress *Progress, log *slog.Logger) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		started := time.Now()
		err := listen(ctx, ledger, progress)
		if ctx.Err() != nil {
			return
		}
		log.Warn("feed: notifications lost, connecting again", "error", err)
		if time.Since(started) > 10*time.Second {
			pause = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// heartbeat is how long the listener waits for a notification before it asks the database whether it is still there;
// heartbeatLimit bounds the answer.
const (
	heartbeat      = 3 * time.Second
	heartbeatLimit = 3 * time.Second
)

func listen(ctx context.Context, ledger *eventstore.Ledger, progress *Progress) error {
	conn, err := pgx.ConnectConfig(ctx, ledger.Pool().Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return err
	}
	if err := readEpoch(ctx, conn, progress); err != nil {
		return err
	}
	for shard := range ledger.Shards() {
		if _, err := ledger.Head(ctx, shard); err != nil {
			return err
		}
	}
	for {
		waiting, stop := context.WithTimeout(ctx, heartbeat)
		n, err := conn.WaitForNotification(waiting)
		expired := waiting.Err() != nil && ctx.Err() == nil
		stop()
		if err != nil && expired && !conn.IsClosed() {
			if err := readEpoch(ctx, conn, progress); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		fields := strings.Split(n.Payload, ":")
		switch {
		case n.Channel == headChannel && len(fields) == 2:
			ledger.AdvanceHead(parseNumber(fields[0]), int64(parseNumber(fields[1])))
		case n.Channel == movedChannel:
			for _, one := range strings.Split(n.Payload, ",") {
				if fields := strings.Split(one, ":"); len(fields) == 3 {
					progress.set(fields[0], parseNumber(fields[1]), int64(parseNumber(fields[2])))
				}
			}
		}
	}
}

// readEpoch reads the epoch of the database server, which also shows that it answers.
func readEpoch(ctx context.Context, conn *pgx.Conn, progress *Progress) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	var epoch int64
	if err := conn.QueryRow(ctx, `select `+EpochSQL).Scan(&epoch); err != nil {
		return err
	}
	progress.SetEpoch(epoch)
	return nil
}

// PublishProgress notifies other processes, until ctx ends, of positions that consumers of this process have reached
// without moving their checkpoints in the database (see source). One notification holds as many positions as fit.
func PublishProgress(ctx context.Context, ledger *eventstore.Ledger, progress *Progress, log *slog.Logger) {
	const maxPayload = 7000 // bytes; PostgreSQL allows 8000
	for {
		select {
		case <-ctx.Done():
			return
		case <-progress.unpublishedSignal:
		}
		var payload strings.Builder
		send := func() {
			if payload.Len() == 0 {
				return
			}
			if _, err := ledger.Pool().Exec(ctx, notifySQL, payload.String()); err != nil && ctx.Err() == nil {
				log.Warn("feed: cannot publish progress, other processes will read it", "error", err)
			}
			payload.Reset()
		}
		for at, position := range progress.takeUnpublished() {
			if payload.Len() > maxPayload {
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

// parseNumber returns -1, which no shard or position has, for what is not a number.
func parseNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
