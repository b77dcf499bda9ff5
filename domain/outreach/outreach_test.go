package outreach_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/outreach"
	"ledgerline/events"
)

var (
	id   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8051")
	noon = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
)

func problems(p outreach.Properties) []string {
	list := []string{}
	for _, i := range p.Check(noon) {
		list = append(list, i.Path+" "+i.Code)
	}
	return list
}

func valid() outreach.Properties {
	return outreach.Properties{Name: " News ", ContactIDs: []string{"ctc_1"}, Body: "Hi {{first_name|there}}"}
}

func TestOutreachNeedsANameABodyAndExactlyOneAudience(t *testing.T) {
	t.Parallel()
	require.Empty(t, problems(valid()))
	require.Equal(t, []string{"/name required", "/segment_id exactly_one", "/body required"}, problems(outreach.Properties{Name: " ", Body: " "}))
	p := valid()
	p.SegmentID = &id
	require.Equal(t, []string{"/segment_id exactly_one"}, problems(p))
	p = valid()
	p.Name, p.Body, p.ContactIDs = strings.Repeat("é", 121), strings.Repeat("é", 2001), []string{}
	require.Equal(t, []string{"/name too_long", "/contact_ids too_few_items", "/body too_long"}, problems(p))
	p = valid()
	p.ContactIDs = []string{"ctc_1", "ctc_2", "ctc_1"}
	require.Equal(t, []string{"/contact_ids/2 repeated"}, problems(p))
	p.ContactIDs = nil
	for i := range 10_001 {
		p.ContactIDs = append(p.ContactIDs, fmt.Sprintf("ctc_%d", i))
	}
	require.Equal(t, []string{"/contact_ids too_many_items"}, problems(p))
}

func TestFaultsInATemplateALineWithAPoolAndAPastTimeAreRefused(t *testing.T) {
	t.Parallel()
	for body, wrong := range map[string]bool{"{{nick}}": true, "{{first_name": true, "{{trigger.a}}": true, "{{fields.plan|}}": false} {
		p := valid()
		p.Body = body
		require.Equal(t, wrong, len(problems(p)) > 0, body)
	}
	p := valid()
	name, past := "x", noon
	p.PoolID, p.LineID, p.SendAt = &name, &name, &past
	require.Equal(t, []string{"/line_id not_with_pool_id", "/send_at not_in_the_future"}, problems(p))
	late := noon.Add(365*24*time.Hour + time.Millisecond)
	p = valid()
	p.SendAt = &late
	require.Equal(t, []string{"/send_at too_late"}, problems(p))
}

func given(t *testing.T, p outreach.Properties, more ...events.Event) outreach.Outreach {
	t.Helper()
	created, _ := outreach.Create(id, p, 1, noon)
	var o outreach.Outreach
	for _, e := range append(created, more...) {
		o = o.Apply(e, events.Envelope{})
	}
	return o
}

func TestOutreachIsScheduledWithASendAtElseRunning(t *testing.T) {
	t.Parallel()
	require.Equal(t, outreach.Running, given(t, valid()).Status)
	p, later := valid(), noon.Add(time.Hour)
	p.SendAt = &later
	require.Equal(t, outreach.Scheduled, given(t, p).Status)
	started := given(t, p, &events.OutreachStarted{OutreachID: id})
	require.Equal(t, outreach.Running, started.Status)
	require.Empty(t, started.Start(5, noon), "the audience is fixed once")
}

func TestOutreachThatHasEndedCannotBeCancelled(t *testing.T) {
	t.Parallel()
	cancelled, err := given(t, valid()).Cancel()
	require.NoError(t, err)
	require.Equal(t, []events.Event{&events.OutreachCancelled{OutreachID: id, From: "running"}}, cancelled)
	for _, end := range []events.Event{&events.OutreachCompleted{OutreachID: id}, &events.OutreachCancelled{OutreachID: id}} {
		o := given(t, valid(), end)
		_, err := o.Cancel()
		require.True(t, fault.Is(err, fault.Conflict))
		require.Empty(t, o.Complete())
		require.Empty(t, o.Start(1, noon))
	}
}
