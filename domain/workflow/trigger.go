package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/consent"
)

// TriggerType is what starts the runs of a workflow.
type TriggerType string

// The trigger types.
const (
	MessageReceived TriggerType = "message.received"
	ContactCreated  TriggerType = "contact.created"
	OnSchedule      TriggerType = "schedule"
	OnWebhook       TriggerType = "webhook"
)

// Trigger is a parsed trigger with its config (rules WFL-17 to WFL-21). Only the fields of its type are set.
type Trigger struct {
	Type TriggerType

	Keywords         []string // folded; none: every message
	Contains         bool     // a keyword may be a part of the message, of whole words
	LineIDs, PoolIDs []string // none: every line
	FirstMessageOnly bool
	SegmentID        *uuid.UUID
	Labels           []string // the contact has all of them
	Schedule         *Schedule
	PhonePath        []string // where the phone number is in the posted data
	PhonePointer     string   // PhonePath as it was written
	CreateContact    bool
}

const maxKeywords = 20

// trigger reads the config of a trigger. now and zone are the time and the organisation's time zone; stopWords are the
// organisation's own STOP words.
func (c *checker) trigger(d *Draft, in Environment) Trigger {
	t := Trigger{Type: TriggerType(d.Trigger)}
	o := c.object(d.TriggerConfig, "/trigger_config")
	switch t.Type {
	case MessageReceived:
		t.Keywords = o.keywords(in.StopWords)
		if match, ok := o.text("match"); ok {
			if match != "exact" && match != "contains" {
				o.invalid("match", "Expected exact or contains.")
			}
			t.Contains = match == "contains"
		}
		t.LineIDs, t.PoolIDs = o.ids("line_ids", ReferenceLine), o.ids("pool_ids", ReferencePool)
		t.SegmentID = o.uuid("segment_id", ReferenceSegment)
		t.FirstMessageOnly, _ = o.flag("first_message_only")
	case ContactCreated:
		t.SegmentID, t.Labels = o.uuid("segment_id", ReferenceSegment), o.ids("labels", ReferenceLabel)
	case OnSchedule:
		t.Schedule = o.schedule(in)
		if _, given := o.values["segment_id"]; !given {
			o.invalid("segment_id", "A schedule needs the segment of the contacts that it runs for.")
		}
		t.SegmentID = o.uuid("segment_id", ReferenceSegment)
	case OnWebhook:
		o.known = append(o.known, "token")
		t.PhonePointer = "/phone"
		if pointer, ok := o.text("phone_path"); ok {
			t.PhonePointer = pointer
		}
		path, err := ParsePointer(t.PhonePointer)
		if err != nil {
			o.invalid("phone_path", "%s", err)
		}
		t.PhonePath = path
		t.CreateContact, _ = o.flag("create_contact")
	default:
		c.wrong("/trigger", IssueConfig, "Expected message.received, contact.created, schedule or webhook.")
		return t
	}
	o.unknown()
	return t
}

// keywords reads keywords and folds them as STOP words are folded. Words that opt out, opt in or ask for help never
// start a workflow, and are refused.
func (o *object) keywords(stopWords []string) []string {
	var folded []string
	for i, word := range o.texts("keywords", maxKeywords) {
		path := fmt.Sprintf("%s/%d", o.at("keywords"), i)
		text := consent.Fold(word)
		reserved, _ := consent.Recognise(word, false, stopWords)
		switch {
		case text == "":
			o.wrong(path, IssueConfig, "A keyword has letters or digits.")
		case reserved != consent.None:
			o.wrong(path, IssueConfig, "STOP, START and HELP words start no workflow.")
		default:
			folded = append(folded, text)
		}
	}
	return folded
}

func (o *object) schedule(in Environment) *Schedule {
	zone := in.Zone
	if name, ok := o.text("timezone"); ok {
		found, err := time.LoadLocation(name)
		if err != nil || name == "" || name == "Local" {
			o.invalid("timezone", "Expected the name of a time zone, for example America/New_York.")
		} else {
			zone = found
		}
	}
	if !o.exactlyOne("cron", "at") {
		return nil
	}
	if expression, ok := o.text("cron"); ok {
		s, err := ParseCron(expression, zone)
		if err != nil {
			o.invalid("cron", "%s", err)
		}
		return s
	}
	at, ok := o.time("at")
	if !ok {
		return nil
	}
	if !at.After(in.Now) {
		o.invalid("at", "This time is in the past.")
	}
	return At(at)
}

// Matches reports whether a message starts the workflow, as far as its text and its line tell. text is folded.
func (t *Trigger) Matches(text, lineID string) bool {
	if len(t.LineIDs) > 0 && !slices.Contains(t.LineIDs, lineID) {
		return false
	}
	if len(t.Keywords) == 0 {
		return true
	}
	return slices.ContainsFunc(t.Keywords, func(keyword string) bool {
		return text == keyword || t.Contains && strings.Contains(" "+text+" ", " "+keyword+" ")
	})
}

// Live is a version of a workflow whose trigger may fire.
type Live struct {
	WorkflowID, VersionID uuid.UUID
	Trigger               Trigger
}

// Index finds the live workflows of a workspace that a message starts, without looking at all of them. It does not
// change and may be used concurrently.
type Index struct {
	live   []Live
	always []int            // have no keywords
	words  map[string][]int // by the first word of a keyword
}

// NewIndex returns the index of workflows whose trigger is MessageReceived.
func NewIndex(live []Live) *Index {
	x := &Index{live: live, words: map[string][]int{}}
	for i := range live {
		t := &live[i].Trigger
		if len(t.Keywords) == 0 {
			x.always = append(x.always, i)
		}
		for _, keyword := range t.Keywords {
			first, _, _ := strings.Cut(keyword, " ")
			if !slices.Contains(x.words[first], i) {
				x.words[first] = append(x.words[first], i)
			}
		}
	}
	return x
}

// Match returns the workflows that a message starts, as far as its text and its line tell. The caller leaves out
// messages that are STOP, START or HELP words, which start none.
func (x *Index) Match(body, lineID string) []*Live {
	if len(x.live) == 0 {
		return nil
	}
	text := consent.Fold(body)
	candidates := slices.Clone(x.always)
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		if found := x.words[word]; len(found) > 0 && !seen[word] {
			seen[word] = true
			candidates = append(candidates, found...)
		}
	}
	slices.Sort(candidates)
	var matching []*Live
	for _, i := range slices.Compact(candidates) {
		if x.live[i].Trigger.Matches(text, lineID) {
			matching = append(matching, &x.live[i])
		}
	}
	return matching
}
