package eventstore

import (
	"bytes"
	"time"

	"github.com/google/uuid"
)

type claimKey struct{ scope, key string }

// bucketKey names one bucket of a quota's counter.
type bucketKey struct {
	key    string
	bucket time.Time
}

// recordKey names an idempotency record.
type recordKey struct {
	workspace uuid.UUID
	key       string
}

// shardState is what the preconditions of a batch depend on: the state of the shard before the batch, changed by the
// appends of the batch that were accepted so far. Deciding about it needs no database.
type shardState struct {
	head     int64
	now      time.Time             // for the lifetime of idempotency records
	versions map[string]int        // by stream
	claims   map[claimKey]string   // owners
	used     map[QuotaWindow]int64 // of quotas, before the batch
	added    map[bucketKey]int64   // to quotas, by the batch
	records  map[recordKey]IdempotencyRecord
	keys     map[string]bool // subjects whose key exists or is destroyed

	storedClaims map[claimKey]string // owners, before the batch
}

func newShardState(head int64, now time.Time) *shardState {
	return &shardState{
		head: head, now: now, versions: map[string]int{}, claims: map[claimKey]string{}, storedClaims: map[claimKey]string{},
		used: map[QuotaWindow]int64{}, added: map[bucketKey]int64{}, records: map[recordKey]IdempotencyRecord{}, keys: map[string]bool{},
	}
}

// decide accepts or refuses one append. When it accepts, it gives the append's rows their positions and versions and
// changes the state; when it refuses, it changes nothing.
func (s *shardState) decide(shard int, p *pendingAppend) (Result, error) {
	a := p.append
	if r := a.Idempotency; r != nil {
		stored, found := s.records[recordKey{r.Workspace, r.Key}]
		if found && s.now.Sub(stored.CreatedAt) < IdempotencyRecordLifetime {
			return Result{}, &IdempotencyRecordExists{stored}
		}
	}
	for _, g := range a.Guards {
		if actual := s.versions[g.Stream]; actual != g.Version {
			return Result{}, &VersionConflict{Stream: g.Stream, Expected: g.Version, Actual: actual, Guard: true}
		}
	}
	for _, stream := range a.Streams {
		if actual := s.versions[stream.Stream]; stream.Expected != AnyVersion && actual != stream.Expected {
			return Result{}, &VersionConflict{Stream: stream.Stream, Expected: stream.Expected, Actual: actual}
		}
	}
	for _, k := range p.newKeys {
		if s.keys[k.subject] {
			return Result{}, errKeyRace
		}
	}
	if err := s.checkClaims(a.Claims); err != nil {
		return Result{}, err
	}
	for i, q := range a.Quotas {
		used := s.usedSince(QuotaWindow{q.Key, q.From})
		for _, earlier := range a.Quotas[:i] { // an append may add to one counter several times
			if earlier.Key == q.Key && !earlier.Bucket.Before(q.From) {
				used += earlier.Add
			}
		}
		if q.Add > 0 && used+q.Add > q.Limit {
			return Result{}, &QuotaExceeded{Key: q.Key, Used: used, Add: q.Add, Limit: q.Limit}
		}
	}
	return s.accept(shard, p), nil
}

// checkClaims returns *ClaimTaken for the first claim that another owner holds and that the append has not released
// before.
func (s *shardState) checkClaims(claims []Claim) error {
	var released map[claimKey]bool
	for _, c := range claims {
		k := claimKey{c.Scope, c.Key}
		owner, held := s.claims[k]
		switch {
		case !held || released[k]:
		case c.Release && owner == c.Owner:
			if released == nil {
				released = map[claimKey]bool{}
			}
			released[k] = true
		case !c.Release && owner != c.Owner:
			return &ClaimTaken{Scope: c.Scope, Key: c.Key, Owner: owner}
		}
	}
	return nil
}

// usedSince is how much of a quota is used in a window, with what the batch adds.
func (s *shardState) usedSince(w QuotaWindow) int64 {
	used := s.used[w]
	for k, n := range s.added {
		if k.key == w.Key && !k.bucket.Before(w.From) {
			used += n
		}
	}
	return used
}

// accept numbers the rows of an append and changes the state as the append does.
func (s *shardState) accept(shard int, p *pendingAppend) Result {
	a := p.append
	result := Result{Shard: shard, Last: s.head}
	for i := range p.rows {
		r := &p.rows[i]
		s.head++
		s.versions[r.stream]++
		r.position, r.version = s.head, s.versions[r.stream]
		result.IDs = append(result.IDs, r.id)
		if i == 0 {
			result.First = r.position
		}
		result.Last = r.position
	}
	for _, k := range p.newKeys {
		s.keys[k.subject] = true
	}
	for _, c := range a.Claims {
		k := claimKey{c.Scope, c.Key}
		switch {
		case !c.Release:
			s.claims[k] = c.Owner
		case s.claims[k] == c.Owner:
			delete(s.claims, k)
		}
	}
	for _, q := range a.Quotas {
		s.added[bucketKey{q.Key, q.Bucket}] += q.Add
	}
	if r := a.Idempotency; r != nil {
		stored := *r
		stored.Shard, stored.CreatedAt, stored.Body = shard, s.now, bytes.Clone(p.recordBody)
		stored.Position = 0
		if len(p.rows) > 0 {
			stored.Position = result.Last
		}
		s.records[recordKey{r.Workspace, r.Key}] = stored
	}
	return result
}
