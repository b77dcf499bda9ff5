package feed

import (
	"context"
	"fmt"
	"sync"
)

// EpochSQL is the SQL expression for the epoch: the start time of the database server. Consumers commit without waiting
// for the disk, so after a crash of the server their checkpoints may be older than before. What a process knows from an
// earlier epoch is therefore forgotten. Queries whose results go to Progress read the epoch with them.
const EpochSQL = `(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint`

// Progress is what this process knows about how far consumers have come: at once for its own consumers, by
// notifications for those of other processes. It is safe for concurrent use.
type Progress struct {
	mu                sync.Mutex
	epoch             int64
	reached           map[consumerShard]int64
	changed           chan struct{} // closed and replaced at each change of reached
	unpublished       map[consumerShard]int64
	unpublishedSignal chan struct{}           // receives after unpublished has got something
	onEpoch           []func()                // called when the epoch changes
	foreignAt         map[consumerShard]int64 // checkpoints of this process's consumers that are not in the ledger
}

type consumerShard struct {
	consumer string
	shard    int
}

// NewProgress returns a Progress that knows nothing yet.
func NewProgress() *Progress {
	return &Progress{
		reached: map[consumerShard]int64{}, changed: make(chan struct{}),
		unpublished: map[consumerShard]int64{}, unpublishedSignal: make(chan struct{}, 1), foreignAt: map[consumerShard]int64{},
	}
}

// setCheckpoint stores a checkpoint that was read from the database, with the epoch that was read with it.
func (p *Progress) setCheckpoint(epoch int64, consumer string, shard int, position int64) {
	p.SetEpoch(epoch)
	p.mu.Lock()
	delete(p.foreignAt, consumerShard{consumer, shard})
	p.mu.Unlock()
	p.set(consumer, shard, position)
}

// ForeignCheckpointError is the error of a consumer whose checkpoint is not in the ledger.
type ForeignCheckpointError struct {
	Consumer string
	Shard    int
	Position int64
}

func (e *ForeignCheckpointError) Error() string {
	return fmt.Sprintf("feed: %s is stopped: its checkpoint at position %d of shard %d is not an event of this ledger, so its tables are of another history",
		e.Consumer, e.Position, e.Shard)
}

// foreign stores that the checkpoint of a consumer is not in the ledger. It returns an error for the log when that is
// new.
func (p *Progress) foreign(consumer string, shard int, position int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := consumerShard{consumer, shard}
	known, was := p.foreignAt[k]
	p.foreignAt[k] = position
	if was && known == position {
		return nil
	}
	return &ForeignCheckpointError{consumer, shard, position}
}

// Foreign returns an error for each consumer of this process that is stopped because its checkpoint is not in the
// ledger.
func (p *Progress) Foreign() (stopped []*ForeignCheckpointError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, position := range p.foreignAt {
		stopped = append(stopped, &ForeignCheckpointError{k.consumer, k.shard, position})
	}
	return stopped
}

// forget forgets everything known, and has the consumers read their checkpoints again.
func (p *Progress) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
}

func (p *Progress) forgetLocked() {
	clear(p.reached)
	clear(p.unpublished)
	for _, wake := range p.onEpoch {
		wake()
	}
}

// SetEpoch stores the epoch of the database server. When it has changed, everything known is forgotten.
func (p *Progress) SetEpoch(epoch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == epoch {
		return
	}
	p.epoch = epoch
	p.forgetLocked()
}

func (p *Progress) currentEpoch() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// wakeOnEpoch has wake called when the epoch changes.
func (p *Progress) wakeOnEpoch(wake func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onEpoch = append(p.onEpoch, wake)
}

// set stores a position that a consumer has reached, unless a later one is known.
func (p *Progress) set(consumer string, shard int, position int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := (consumerShard{consumer, shard}); position > p.reached[k] {
		p.reached[k] = position
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// setWithoutCheckpoint stores a position that a consumer has reached without moving its checkpoint, and has it
// published to other processes.
func (p *Progress) setWithoutCheckpoint(consumer string, shard int, position int64) {
	p.set(consumer, shard, position)
	p.mu.Lock()
	p.unpublished[consumerShard{consumer, shard}] = position
	p.mu.Unlock()
	select {
	case p.unpublishedSignal <- struct{}{}:
	default:
	}
}

// takeUnpublished returns the positions that are to be published, and forgets that they are.
func (p *Progress) takeUnpublished() map[consumerShard]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.unpublished
	p.unpublished = map[consumerShard]int64{}
	return taken
}

// Reached returns the position that a consumer is known to have reached in a shard.
func (p *Progress) Reached(consumer string, shard int) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached[consumerShard{consumer, shard}]
}

// Wait returns when all consumers have reached a position in a shard, or with the error of ctx.
func (p *Progress) Wait(ctx context.Context, shard int, position int64, consumers ...string) error {
	for {
		p.mu.Lock()
		changed, behind := p.changed, false
		for _, c := range consumers {
			behind = behind || p.reached[consumerShard{c, shard}] < position
		}
		p.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
