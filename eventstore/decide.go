package eventstore

import (
	"bytes"
	"time"

	"github.com/google/uuid"
)

type claimKey struct{ scope, key string }

type quotaKey struct {
	key    string
	bucket time.Time
}

type receiptKey struct {
	workspace uuid.UUID
	key       string
}

// facts are what a batch needs to know of the shard under its lock, and what the appends of the batch that were
// accepted so far have made of it. Deciding is pure, so every rule can be tested without a database.
type facts struct {
	head     int64
	now      time.Time // for the life of receipts
	versions map[string]int
	claims   map[claimKey]string
	// used holds, per quota window asked for, what is used already; added what this batch adds, per bucket.
	used     map[windowKey]int64
	added    map[quotaKey]int64
	receipts map[receiptKey]IdempotencyRecord
	keys     map[string]bool // subjects that have a key or a tombstone

	held map[claimKey]string // the claims as the database has them
}

func newFacts(head int64, now time.Time) *facts {
	return &facts{
		head: head, now: now, versions: map[string]int{}, claims: map[claimKey]string{}, held: map[claimKey]string{},
		used: map[windowKey]int64{}, added: map[quotaKey]int64{}, receipts: map[receiptKey]IdempotencyRecord{}, keys: map[string]bool{},
	}
}

// windowKey names one question to a quota: the sum from a moment on.
type windowKey struct {
	key  string
	from time.Time
}

// decide accepts or refuses one append against the facts. On acceptance it numbers the rows and moves the facts on;
// a refusal leaves them untouched.
func (f *facts) decide(shard int, p *pending) (Result, error) {
	a := p.append
	if r := a.Idempotency; r != nil {
		old, found := f.receipts[receiptKey{r.Workspace, r.Key}]
		if found && f.now.Sub(old.CreatedAt) < IdempotencyRecordLifetime {
			return Result{}, &IdempotencyRecordExists{old}
		}
	}
	for _, g := range a.Guards {
		if actual := f.versions[g.Stream]; actual != g.Version {
			return Result{}, &VersionConflict{Stream: g.Stream, Expected: g.Version, Actual: actual, Guard: true}
		}
	}
	for _, s := range a.Streams {
		if actual := f.versions[s.Stream]; s.Expected != AnyVersion && actual != s.Expected {
			return Result{}, &VersionConflict{Stream: s.Stream, Expected: s.Expected, Actual: actual}
		}
	}
	for _, k := range p.newKeys {
		if f.keys[k.subject] {
			return Result{}, errKeyRace
		}
	}
	if taken := f.taken(a.Claims); taken != nil {
		return Result{}, taken
	}
	for i, q := range a.Quotas {
		used := f.usedSince(q.Key, q.From)
		for _, earlier := range a.Quotas[:i] { // several additions to one counter within one append
			if earlier.Key == q.Key && !earlier.Bucket.Before(q.From) {
				used += earlier.Add
			}
		}
		if q.Add > 0 && used+q.Add > q.Limit {
			return Result{}, &QuotaExceeded{Key: q.Key, Used: used, Add: q.Add, Limit: q.Limit}
		}
	}
	return f.accept(shard, p), nil
}

// taken finds the first claim that somebody else holds, also after what the append released before it.
func (f *facts) taken(claims []Claim) error {
	var freed map[claimKey]bool
	for _, c := range claims {
		k := claimKey{c.Scope, c.Key}
		owner, held := f.claims[k]
		switch {
		case !held || freed[k]:
		case c.Release && owner == c.Owner:
			if freed == nil {
				freed = map[claimKey]bool{}
			}
			freed[k] = true
		case !c.Release && owner != c.Owner:
			return &ClaimTaken{Scope: c.Scope, Key: c.Key, Owner: owner}
		}
	}
	return nil
}

func (f *facts) usedSince(key string, from time.Time) int64 {
	used := f.used[windowKey{key, from}]
	for k, n := range f.added {
		if k.key == key && !k.bucket.Before(from) {
			used += n
		}
	}
	return used
}

func (f *facts) accept(shard int, p *pending) Result {
	a := p.append
	result := Result{Shard: shard, Last: f.head}
	for i := range p.rows {
		r := &p.rows[i]
		f.head++
		f.versions[r.stream]++
		r.position, r.version = f.head, f.versions[r.stream]
		result.IDs = append(result.IDs, r.id)
		if i == 0 {
			result.First = r.position
		}
		result.Last = r.position
	}
	for _, k := range p.newKeys {
		f.keys[k.subject] = true
	}
	for _, c := range a.Claims {
		k := claimKey{c.Scope, c.Key}
		switch {
		case !c.Release:
			f.claims[k] = c.Owner
		case f.claims[k] == c.Owner:
			delete(f.claims, k)
		}
	}
	for _, q := range a.Quotas {
		f.added[quotaKey{q.Key, q.Bucket}] += q.Add
	}
	if r := a.Idempotency; r != nil {
		kept := *r
		kept.Shard, kept.CreatedAt, kept.Body = shard, f.now, bytes.Clone(p.body)
		kept.Position = 0
		if len(p.rows) > 0 {
			kept.Position = result.Last
		}
		f.receipts[receiptKey{r.Workspace, r.Key}] = kept
	}
	return result
}
