package sending

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"ledgerline/commands/engine"
	"ledgerline/domain/line"
	"ledgerline/domain/rules"
	"ledgerline/eventstore"
)

// usageCache caches the usage of lines and service identities. The quotas of the ledger decide whether capacity exists;
// the cache only avoids appends that would be refused. The cached usage of a day is never higher than the real one, so
// a line that is full in the cache is really full. If the cached usage is too low, the append is refused, and the usage
// is read from the ledger before its next use. The cache is safe for concurrent use.
type usageCache struct {
	ledger     *eventstore.Ledger
	lines      *lru.Cache[string, *cachedLine]
	identities *lru.Cache[string, cachedIdentity] // by id; only identities that have reached their daily limit
}

type cachedIdentity struct {
	day  string
	used int
}

// cachedLine is the cached usage of one line on a usage day.
type cachedLine struct {
	mu       sync.Mutex
	reads    int    // how often it was read from the ledger
	day      string // the usage day of the other fields; "" before the first read
	stale    bool   // another node has used the line too: read the usage from the ledger before its next use
	sends    int
	newToday int
	newTimes []time.Time    // times of the first messages to new contacts in the last hour, oldest first
	texts    map[string]int // messages by hash of the text; only texts that this process sent or was refused
}

// maxTexts bounds the texts remembered for a line.
const maxTexts = 4096

func newUsageCache(l *eventstore.Ledger, size int) (*usageCache, error) {
	lines, err := lru.New[string, *cachedLine](size)
	if err != nil {
		return nil, err
	}
	identities, err := lru.New[string, cachedIdentity](size)
	if err != nil {
		return nil, err
	}
	return &usageCache{l, lines, identities}, nil
}

// The quotas of a line. New contacts of the hour have a counter of their own. Its buckets are exact times, so that the
// limit applies to the last 60 minutes and not to a clock hour.
const (
	quotaSends   = "sends"
	quotaNewDay  = "new_day"
	quotaNewHour = "new_hour"
	quotaText    = "text"
)

func lineQuota(lineID, kind string) string { return "line:" + lineID + ":" + kind }

func identityQuota(id string) string { return "identity:" + id }

// newContactHour is how long a new contact counts toward the limit of the hour (rule LIN-11).
const newContactHour = time.Hour

// hourStart returns the earliest time whose new contacts still count toward the limit of the hour at now.
func hourStart(now time.Time) time.Time { return now.Add(-newContactHour + time.Microsecond) }

// identityOn reads from the ledger how many messages a service identity has sent on a usage day.
func (u *usageCache) identityOn(ctx context.Context, id string, day line.Day) (int, error) {
	used, err := u.ledger.QuotaUsage(ctx, []eventstore.QuotaWindow{{Key: identityQuota(id), From: day.Start}})
	if err != nil {
		return 0, engine.Unreadable(err)
	}
	return sum(used[0]), nil
}

// cachedIdentityUse returns what a service identity is known to have sent on a usage day: the number at which its limit
// was reached, else 0.
func (u *usageCache) cachedIdentityUse(id string, day line.Day) int {
	if known, ok := u.identities.Get(id); ok && known.day == day.Date {
		return known.used
	}
	return 0
}

func (u *usageCache) line(id string) *cachedLine {
	if known, ok := u.lines.Get(id); ok {
		return known
	}
	fresh := &cachedLine{}
	if known, had, _ := u.lines.PeekOrAdd(id, fresh); had {
		return known
	}
	return fresh
}

// cached returns the usage of a line, from the cache if possible, with the count of one text.
func (u *usageCache) cached(
	ctx context.Context, lineID string, now time.Time, day line.Day, textHash string,
) (rules.Usage, error) {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale || l.day != day.Date {
		used, err := u.read(ctx, []string{lineID}, now, day, nil)
		if err != nil {
			return rules.Usage{}, err
		}
		if l.day != day.Date {
			l.texts = map[string]int{}
		}
		l.reads++
		l.day, l.stale, l.sends, l.newToday, l.newTimes = day.Date, false, used[0].Sends, used[0].New, used[0].NewTimes
	}
	for len(l.newTimes) > 0 && l.newTimes[0].Before(hourStart(now)) {
		l.newTimes = l.newTimes[1:]
	}
	return rules.Usage{
		Sends: l.sends, New: l.newToday, NewTimes: l.newTimes[:len(l.newTimes):len(l.newTimes)], Identical: l.texts[textHash],
	}, nil
}

// fromLedger reads the usage of one line from the ledger, with the count of one text.
func (u *usageCache) fromLedger(
	ctx context.Context, lineID string, now time.Time, day line.Day, textHash string,
) (rules.Usage, error) {
	var texts []string
	if textHash != "" {
		texts = []string{textHash}
	}
	used, err := u.read(ctx, []string{lineID}, now, day, texts)
	if err != nil {
		return rules.Usage{}, err
	}
	usage := used[0].Usage
	usage.Identical = used[0].texts[textHash]
	return usage, nil
}

// usageWithTexts is the usage of a line, with the counts of some texts by hash.
type usageWithTexts struct {
	rules.Usage
	texts map[string]int
}

// read reads the usage of several lines from the ledger, in one round trip.
func (u *usageCache) read(ctx context.Context, lineIDs []string, now time.Time, day line.Day, texts []string) ([]usageWithTexts, error) {
	if len(lineIDs) == 0 {
		return nil, nil
	}
	const counters = 3
	each := counters + len(texts)
	windows := make([]eventstore.QuotaWindow, 0, len(lineIDs)*each)
	for _, id := range lineIDs {
		windows = append(windows,
			eventstore.QuotaWindow{Key: lineQuota(id, quotaSends), From: day.Start},
			eventstore.QuotaWindow{Key: lineQuota(id, quotaNewDay), From: day.Start},
			eventstore.QuotaWindow{Key: lineQuota(id, quotaNewHour), From: hourStart(now)})
		for _, hash := range texts {
			windows = append(windows, eventstore.QuotaWindow{Key: lineQuota(id, quotaText+":"+hash), From: day.Start})
		}
	}
	used, err := u.ledger.QuotaUsage(ctx, windows)
	if err != nil {
		return nil, engine.Unreadable(err)
	}
	all := make([]usageWithTexts, len(lineIDs))
	for i := range all {
		of := used[i*each : (i+1)*each]
		l := usageWithTexts{Usage: rules.Usage{Sends: sum(of[0]), New: sum(of[1])}, texts: map[string]int{}}
		for _, b := range of[2] {
			for range b.Used {
				l.NewTimes = append(l.NewTimes, b.At)
			}
		}
		for j, hash := range texts {
			l.texts[hash] = sum(of[counters+j])
		}
		all[i] = l
	}
	return all, nil
}

func sum(buckets []eventstore.QuotaBucket) int {
	n := int64(0)
	for _, b := range buckets {
		n += b.Used
	}
	return int(n)
}

// reads returns how often a line's usage was read from the ledger. Call it before an append, and pass the result to add
// after the append.
func (u *usageCache) reads(lineID string) int {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// add adds an appended message to the cached usage, unless the usage was read from the ledger since: that read may
// include the message.
func (u *usageCache) add(lineID string, reads int, at time.Time, day line.Day, isNew bool, textHash string) {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale || l.day != day.Date || l.reads != reads {
		return // it is read before the next use
	}
	l.sends++
	if isNew {
		l.newToday++
		i, _ := slices.BinarySearchFunc(l.newTimes, at, time.Time.Compare)
		l.newTimes = slices.Insert(slices.Clone(l.newTimes), i, at) // readers keep the old slice
	}
	if textHash != "" {
		if len(l.texts) >= maxTexts {
			clear(l.texts)
		}
		l.texts[textHash]++
	}
}

// quotaExceeded updates the cache after an append that was refused because it would exceed a quota.
func (u *usageCache) quotaExceeded(e *eventstore.QuotaExceeded) {
	if id, ok := strings.CutPrefix(e.Key, identityQuota("")); ok {
		u.identities.Add(id, cachedIdentity{line.DayOf(u.ledger.Now()).Date, int(e.Used)})
		return
	}
	rest, ofLine := strings.CutPrefix(e.Key, "line:")
	if !ofLine {
		return
	}
	lineID, kind, _ := strings.Cut(rest, ":")
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if hash, ofText := strings.CutPrefix(kind, quotaText+":"); ofText && l.day != "" {
		l.texts[hash] = int(e.Used)
		return
	}
	l.stale = true
}

// lineQuotas returns the quotas that a message uses on a line. Automatic texts are counted, but no limit applies to
// them.
func lineQuotas(now time.Time, c *rules.Candidate, limits *line.Limits, textHash string, automatic bool) []eventstore.Quota {
	day := line.DayOf(now)
	caps := c.Line.Caps(limits, day)
	limit := func(n int) int64 {
		if automatic {
			return math.MaxInt64
		}
		return int64(n)
	}
	of := func(kind string, bucket, from time.Time, n int) eventstore.Quota {
		return eventstore.Quota{Key: lineQuota(c.Line.ID, kind), Bucket: bucket, From: from, Add: 1, Limit: limit(n)}
	}
	quotas := []eventstore.Quota{of(quotaSends, day.Start, day.Start, caps.SendsPerDay)}
	if c.New {
		at := now.Truncate(time.Microsecond)
		quotas = append(quotas,
			of(quotaNewDay, day.Start, day.Start, caps.NewPerDay), of(quotaNewHour, at, hourStart(at), caps.NewPerHour))
	}
	if textHash != "" {
		quotas = append(quotas, of(quotaText+":"+textHash, day.Start, day.Start, caps.IdenticalPerDay))
	}
	return quotas
}

// textHash returns the keyed hash under which identical texts are counted; "" for an empty text.
func (s *Sender) textHash(body string) string {
	body = strings.TrimSpace(body)
	if body == "" {
		return ""
	}
	h := hmac.New(sha256.New, s.textSecret)
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
