package projections

import (
	"context"
	"encoding/json"
	"time"

	"ledgerline/eventstore"
	"ledgerline/projections/readmodel"
)

// TimelineEvent is one entry of a message's timeline (rule INB-27).
type TimelineEvent struct {
	ID         string         `json:"id" format:"uuid"`
	Type       string         `json:"type" enum:"accepted,routed,capability_checked,deferred,rejected,sending,sent,delivered,read,failed,retried,fallback_sms,received,receipt_missing"`
	OccurredAt string         `json:"occurred_at" format:"date-time"`
	Detail     map[string]any `json:"detail" doc:"Event-specific, for example the reason of a deferral"`
}

// timelineTypes names the entry of each event type. Other events have no entry. message.scheduled has none because the
// sender asked for it: it shows as send_at of "accepted".
var timelineTypes = map[string]string{
	"message.queued": "accepted", "message.routed": "routed", "message.capability_checked": "capability_checked", "message.deferred": "deferred",
	"message.sending": "sending", "message.sent": "sent", "message.retried": "retried", "message.delivered": "delivered",
	"message.read": "read", "message.failed": "failed", "message.receipt_missing": "receipt_missing", "message.received": "received",
	"message.rejected": "rejected", "message.fell_back": "fallback_sms",
}

// Timeline reads a message's timeline from its stream, oldest first. It is empty when there is no such message.
func (s *Store) Timeline(ctx context.Context, messageID string) ([]TimelineEvent, error) {
	recorded, err := s.Ledger().Load(ctx, messageID, 0)
	if err != nil {
		return nil, err
	}
	timeline := []TimelineEvent{}
	for i := range recorded {
		if name, ok := timelineTypes[recorded[i].Type]; ok {
			timeline = append(timeline, TimelineEvent{
				ID: recorded[i].ID.String(), Type: name, OccurredAt: readmodel.Stamp(recorded[i].OccurredAt), Detail: detail(&recorded[i]),
			})
		}
	}
	return timeline, nil
}

// detail is the recorded facts of an event, without those that every event of the message has.
func detail(r *eventstore.Recorded) map[string]any {
	d := map[string]any{}
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return map[string]any{}
	}
	for _, k := range []string{"message_id", "conversation_id", "contact_id", "is_test", "sent_by_staff"} {
		delete(d, k)
	}
	for _, k := range []string{"send_at", "until", "at", "checked_at"} {
		text, _ := d[k].(string)
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			d[k] = readmodel.Stamp(at)
		}
	}
	if more, ok := d["detail"].(map[string]any); ok { // the details of a reason are shown beside it
		delete(d, "detail")
		for k, v := range more {
			d[k] = v
		}
	}
	return d
}
