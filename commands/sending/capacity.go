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

// What lines have done is counted by quotas of the ledger, which alone decide whether there is room. Each process also remembers
// what it has seen of them, so that a full line is not tried again and again: what it remembers is never more than was
// really used on a day, so what is full by memory is full; what is not, the append may still refuse, and then the memory is
// read anew.

// usages remembers what lines have used.
type usages struct {
	ledger *eventstore.Ledger
	lines  *lru.Cache[string, *lineUsage]
	// Service identities that have used up a day, by their id.
	identities *lru.Cache[string, identityUsage]
}

type identityUsage struct {
	day  string
	used int
}

// presentOfIdentity reads from the ledger what a service identity has sent on a day.
func (u *usages) presentOfIdentity(ctx context.Context, id string, day line.Day) (int, error) {
	used, err := u.ledger.QuotaUsage(ctx, []eventstore.QuotaWindow{{Key: identityQuota(id), From: day.Start}})
	if err != nil {
		return 0, engine.Unreadable(err)
	}
	return sum(used[0]), nil
}

// ofIdentity is what a service identity is known to have sent on a day: what filled its limit, or nothing.
func (u *usages) ofIdentity(id string, day line.Day) int {
	if known, ok := u.identities.Get(id); ok && known.day == day.Date {
		return known.used
	}
	return 0
}

// lineUsage is what one line has used on a day.
type lineUsage struct {
	mu       sync.Mutex
	reads    int    // how often it was read from the ledger
	day      string // what is remembered is of this usage day; "" before anything was read
	stale    bool   // others have used it as well: it is read anew
	sends    int
	newToday int
	newTimes []time.Time    // oldest first
	texts    map[string]int // by keyed hash; only those that passed here
}

// maxTexts bounds the texts remembered for a line; the quotas remember all.
const maxTexts = 4096

func newUsages(l *eventstore.Ledger, size int) (*usages, error) {
	lines, err := lru.New[string, *lineUsage](size)
	if err != nil {
		return nil, err
	}
	identities, err := lru.New[string, identityUsage](size)
	if err != nil {
		return nil, err
	}
	return &usages{l, lines, identities}, nil
}

func (u *usages) line(id string) *lineUsage {
	if known, ok := u.lines.Get(id); ok {
		return known
	}
	fresh := &lineUsage{}
	if known, had, _ := u.lines.PeekOrAdd(id, fresh); had {
		return known
	}
	return fresh
}

// The counters of a line. New contacts of an hour are counted apart from those of a day: their buckets are moments, so
// that the hour rolls exactly.
const (
	quotaSends   = "sends"
	quotaNewDay  = "new_day"
	quotaNewHour = "new_hour"
	quotaText    = "text"
)

func lineQuota(lineID, what string) string { return "line:" + lineID + ":" + what }

// newHour is how long a new contact counts toward the hour; the moment itself, an hour later, does not.
const newHour = time.Hour

func hourFrom(now time.Time) time.Time { return now.Add(-newHour + time.Microsecond) }

// of gives what a line has used, for a message with a text.
func (u *usages) of(ctx context.Context, lineID string, now time.Time, day line.Day, text string) (rules.Usage, error) {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale || l.day != day.Date {
		if err := u.read(ctx, l, lineID, now, day); err != nil {
			return rules.Usage{}, err
		}
	}
	for len(l.newTimes) > 0 && l.newTimes[0].Before(hourFrom(now)) {
		l.newTimes = l.newTimes[1:]
	}
	return rules.Usage{Sends: l.sends, New: l.newToday, NewTimes: l.newTimes[:len(l.newTimes):len(l.newTimes)], Identical: l.texts[text]}, nil
}

func (u *usages) read(ctx context.Context, l *lineUsage, lineID string, now time.Time, day line.Day) error {
	used, err := u.present(ctx, lineID, now, day, "")
	if err != nil {
		return err
	}
	if l.day != day.Date {
		l.texts = map[string]int{}
	}
	l.reads++
	l.day, l.stale, l.sends, l.newToday, l.newTimes = day.Date, false, used.Sends, used.New, used.NewTimes
	return nil
}

// present reads from the ledger what a line has used, for a message with a text.
func (u *usages) present(ctx context.Context, lineID string, now time.Time, day line.Day, text string) (usage rules.Usage, err error) {
	windows := []eventstore.QuotaWindow{
		{Key: lineQuota(lineID, quotaSends), From: day.Start}, {Key: lineQuota(lineID, quotaNewDay), From: day.Start},
		{Key: lineQuota(lineID, quotaNewHour), From: hourFrom(now)},
	}
	if text != "" {
		windows = append(windows, eventstore.QuotaWindow{Key: lineQuota(lineID, quotaText+":"+text), From: day.Start})
	}
	used, err := u.ledger.QuotaUsage(ctx, windows)
	if err != nil {
		return usage, engine.Unreadable(err)
	}
	usage.Sends, usage.New = sum(used[0]), sum(used[1])
	for _, b := range used[2] {
		for range b.Used {
			usage.NewTimes = append(usage.NewTimes, b.At)
		}
	}
	if text != "" {
		usage.Identical = sum(used[3])
	}
	return usage, nil
}

func sum(buckets []eventstore.QuotaBucket) int {
	n := int64(0)
	for _, b := range buckets {
		n += b.Used
	}
	return int(n)
}

// reads tells how often a line's usage was read: asked before an append, for took after it.
func (u *usages) reads(lineID string) int {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// took notes what a message that was appended has used, unless the usage was read since: that has it already, perhaps, and
// must not have it twice.
func (u *usages) took(lineID string, reads int, at time.Time, day line.Day, isNew bool, text string) {
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale || l.day != day.Date || l.reads != reads {
		return // it is read when it is asked for
	}
	l.sends++
	if isNew {
		l.newToday++
		i, _ := slices.BinarySearchFunc(l.newTimes, at, time.Time.Compare)
		l.newTimes = slices.Insert(slices.Clone(l.newTimes), i, at) // readers hold the old one
	}
	if text != "" {
		if len(l.texts) >= maxTexts {
			clear(l.texts)
		}
		l.texts[text]++
	}
}

// refused notes that a quota had no room, which the memory did not know.
func (u *usages) refused(e *eventstore.QuotaExceeded) {
	if id, ok := strings.CutPrefix(e.Key, identityQuota("")); ok {
		u.identities.Add(id, identityUsage{line.DayOf(u.ledger.Now()).Date, int(e.Used)})
		return
	}
	rest, ofLine := strings.CutPrefix(e.Key, "line:")
	if !ofLine {
		return
	}
	lineID, what, _ := strings.Cut(rest, ":")
	l := u.line(lineID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, ofText := strings.CutPrefix(what, quotaText+":"); ofText && l.day != "" {
		l.texts[text] = int(e.Used)
		return
	}
	l.stale = true
}

// takes are what a message takes of a line's room. Automatic texts count and are never refused, and what a person
// writes by hand may be like other texts.
func (u *unit) takes(c *rules.Candidate, limits *line.Limits, text string, automatic bool) []eventstore.Quota {
	day := line.DayOf(u.Now)
	caps := c.Line.Caps(limits, day)
	limit := func(n int) int64 {
		if automatic {
			return math.MaxInt64
		}
		return int64(n)
	}
	at := u.Now.Truncate(time.Microsecond)
	quotas := []eventstore.Quota{{Key: lineQuota(c.Line.ID, quotaSends), Bucket: day.Start, From: day.Start, Add: 1, Limit: limit(caps.SendsPerDay)}}
	if c.New {
		quotas = append(quotas,
			eventstore.Quota{Key: lineQuota(c.Line.ID, quotaNewDay), Bucket: day.Start, From: day.Start, Add: 1, Limit: limit(caps.NewPerDay)},
			eventstore.Quota{Key: lineQuota(c.Line.ID, quotaNewHour), Bucket: at, From: hourFrom(at), Add: 1, Limit: limit(caps.NewPerHour)})
	}
	if text != "" {
		quotas = append(quotas, eventstore.Quota{Key: lineQuota(c.Line.ID, quotaText+":"+text), Bucket: day.Start, From: day.Start, Add: 1, Limit: limit(caps.IdenticalPerDay)})
	}
	return quotas
}

// textKey knows a text by a keyed hash; "" for no text.
func (s *Sender) textKey(body string) string {
	body = strings.TrimSpace(body)
	if body == "" {
		return ""
	}
	h := hmac.New(sha256.New, s.textSecret)
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Room is how much a group of lines can take now, and when it can take more.
type Room struct {
	Sends int       // messages
	New   int       // of them to new contacts
	More  time.Time // when there may be more room; never zero
	// Stopped tells that the queue is that of a line which cannot send, and Gone that it never will again.
	Stopped, Gone bool
}

// freeRoom is how many messages are given a line at a time on which they need no room.
const freeRoom = 1000

// RoomOf tells the room that the lines of a queue have: a line's own, or all of a pool's. What waits in it is released by
// that much; of an organisation that is paused, nothing.
func (s *Sender) RoomOf(ctx context.Context, q Queue) (Room, error) {
	now := s.engine.Ledger.Now()
	day := line.DayOf(now)
	room := Room{More: day.End}
	u := &unit{Unit: s.engine.Unit(&engine.Request{Organisation: q.Organisation, Workspace: q.Workspace}), sender: s}
	org, err := u.Organisation(ctx)
	if err != nil || org.State.Paused {
		return room, err
	}
	ids := []string{q.Group}
	if q.IsPool() {
		pool, err := engine.Load(ctx, u.Unit, s.engine.Pools, q.Group)
		if err != nil {
			return room, err
		}
		ids = pool.State.LineIDs
	}
	var sender *string
	if q.Sender != "" {
		sender = &q.Sender
	}
	allowed, err := u.AllowedLines(ctx, sender)
	if err != nil {
		return room, err
	}
	limits := org.State.Limits()
	for _, id := range ids {
		l, err := engine.Load(ctx, u.Unit, s.engine.Lines, id)
		if err != nil {
			return room, err
		}
		if id == q.Group {
			room.Stopped, room.Gone = !l.State.CanSend(), l.State.State == line.Retired
		}
		if !l.State.CanSend() || !allowed(id) {
			continue
		}
		if l.State.IsSandbox || q.Taken {
			room.Sends, room.New = room.Sends+freeRoom, room.New+freeRoom
			continue
		}
		used, err := s.usages.present(ctx, id, now, day, q.Text)
		if err != nil {
			return room, err
		}
		caps := l.State.Caps(&limits, day)
		sends := max(caps.SendsPerDay-used.Sends, 0)
		if q.Text != "" {
			sends = min(sends, max(caps.IdenticalPerDay-used.Identical, 0))
		}
		isNew := min(max(caps.NewPerDay-used.New, 0), max(caps.NewPerHour-len(used.NewTimes), 0), sends)
		room.Sends += sends
		room.New += isNew
		if len(used.NewTimes) > 0 && caps.NewPerDay > used.New {
			if free := used.NewTimes[0].Add(newHour); free.Before(room.More) {
				room.More = free
			}
		}
	}
	return room, nil
}
