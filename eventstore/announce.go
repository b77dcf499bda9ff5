package eventstore

import (
	"context"
	"strconv"
	"time"
)

// PostgreSQL serialises transactions that notify: each holds one lock of the whole server until its commit is on disk.
// So an append does not notify. When it has committed, one statement on another connection tells the other processes,
// for all appends that have committed meanwhile. A notification that is lost is made up for by the slow poll of the
// feed.

const announceSQL = `select pg_notify('ledger_head', p) from unnest($1::text[]) p`

// announceLimit bounds one notification.
const announceLimit = 5 * time.Second

// announce has other processes told that a shard has grown.
func (l *Ledger) announce(shard int, head int64) {
	l.unannounced.Store(shard, head)
	select {
	case l.unannouncedSignal <- struct{}{}:
	default:
	}
}

// announceHeads tells other processes of the heads of shards that have grown, until ctx ends.
func (l *Ledger) announceHeads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.unannouncedSignal:
		}
		var heads []string
		l.unannounced.Range(func(shard, head any) bool {
			if l.unannounced.CompareAndDelete(shard, head) {
				at, _ := shard.(int)
				position, _ := head.(int64)
				heads = append(heads, strconv.Itoa(at)+":"+strconv.FormatInt(position, 10))
			}
			return true
		})
		if len(heads) == 0 {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, announceLimit)
		if _, err := l.pool.Exec(limited, announceSQL, heads); err != nil && ctx.Err() == nil {
			l.log.Warn("eventstore: cannot notify other processes, they will poll", "error", err)
		}
		cancel()
	}
}
