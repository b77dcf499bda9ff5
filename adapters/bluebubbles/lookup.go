package bluebubbles

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"ledgerline/processes/carrier"
)

// errTooEarly says that the AcceptWindow of an attempt is not over: the server may still accept a message that it does
// not show yet.
var errTooEarly = fmt.Errorf("bluebubbles: %w", carrier.ErrUndecided)

const (
	// skew is how far the clock of a server may be behind that of the database, in milliseconds.
	skew = 2 * 60 * 1000
	// pageSize and maxPages bound how many messages of a server are searched.
	pageSize = 500
	maxPages = 20
)

// Lookup implements carrier.Carrier. It searches for a part without an id among the messages that the server has sent
// to the number since the attempt and that belong to no other message of ours.
func (a *Adapter) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	if out.Channel != "chat" { // Send refuses it always
		return carrier.Accepted{}, false, nil
	}
	if !out.ForgottenSince.IsZero() {
		if err := a.recordForgotten(ctx, &out); err != nil {
			return carrier.Accepted{}, false, err
		}
	}
	attempts, err := a.attempts(ctx, out.MessageID)
	if err != nil {
		return carrier.Accepted{}, false, err
	}
	wanted := patterns(&out)
	var accepted carrier.Accepted
	for i := range attempts {
		t := &attempts[i]
		if t.GUID == nil && t.Part < len(wanted) {
			if err := a.findPart(ctx, &out, t, wanted[t.Part]); err != nil {
				return carrier.Accepted{}, false, err
			}
		}
		if t.GUID == nil {
			return carrier.Accepted{}, false, a.countLost(ctx, out.MessageID, t.Part)
		}
		if t.Part == 0 {
			accepted.CarrierID = *t.GUID
		}
	}
	// A message with a part that was never attempted continues there when Send is called again.
	return accepted, len(attempts) == len(wanted) && len(attempts) > 0, nil
}

// recordForgotten records an attempt of each part of a message that may have been sent without our memory of it.
func (a *Adapter) recordForgotten(ctx context.Context, out *carrier.Outbound) error {
	parts := len(patterns(out))
	for part := range parts {
		temp := "ledgerline-" + out.MessageID + "-" + strconv.Itoa(part)
		if _, err := a.cfg.Pool.Exec(ctx, recordForgottenSQL, out.MessageID, part, part == parts-1, out.LineID, temp, out.ForgottenSince); err != nil {
			return fmt.Errorf("bluebubbles: record attempt: %w", err)
		}
	}
	return nil
}

// pattern is how a part is recognised.
type pattern struct {
	text string // of a text
	file string // name of an attachment
}

func patterns(out *carrier.Outbound) []pattern {
	var list []pattern
	if out.Body != "" {
		list = append(list, pattern{text: plain(out.Body)})
	}
	for i := range out.Media {
		list = append(list, pattern{file: fileName(&out.Media[i], "")})
	}
	return list
}

func (w *pattern) matches(m *wireMessage) bool {
	if w.file == "" {
		return len(m.Attachments) == 0 && m.text() == w.text
	}
	for _, attached := range m.Attachments {
		if attached.Name != nil && (*attached.Name == w.file || extended(*attached.Name, w.file)) {
			return true
		}
	}
	return false
}

// extended reports whether name is short with an extension, which an attachment gets when its type is known.
func extended(name, short string) bool {
	return len(name) > len(short)+1 && name[:len(short)] == short && name[len(short)] == '.'
}

// findPart finds a part at the server and sets t.GUID. It leaves t.GUID nil when the server certainly has not accepted
// it.
func (a *Adapter) findPart(ctx context.Context, out *carrier.Outbound, t *attempt, w pattern) error {
	account, err := a.cfg.Lines.Account(ctx, t.LineID)
	if err != nil {
		return err
	}
	guid, err := a.search(ctx, account, out.To, t, w)
	switch {
	case err != nil:
		return err
	case guid == "" && !t.WindowOver:
		return errTooEarly
	case guid == "":
		return nil
	}
	if err := a.recordGUID(ctx, out.MessageID, t.Part, guid); err != nil {
		return err
	}
	t.GUID = &guid
	return nil
}

func (a *Adapter) search(ctx context.Context, account Account, to string, t *attempt, w pattern) (guid string, err error) {
	for page := range maxPages {
		list, err := a.messages(ctx, account, t.BegunMS-skew, page*pageSize, pageSize)
		if err != nil {
			return "", err
		}
		var candidates []string
		for i := range list {
			if m := &list[i]; m.FromMe && m.GUID != "" && m.with(to) && w.matches(m) {
				candidates = append(candidates, m.GUID)
			}
		}
		known, err := a.knownGUIDs(ctx, account.LineID, candidates)
		if err != nil {
			return "", err
		}
		for _, candidate := range candidates {
			if !known[candidate] {
				return candidate, nil
			}
		}
		if len(list) < pageSize {
			return "", nil
		}
	}
	return "", fmt.Errorf("%w: there are too many messages to search", errTooEarly)
}

// messages reads a page of the messages of a server since a time (Unix milliseconds), oldest first.
func (a *Adapter) messages(ctx context.Context, account Account, after int64, offset, limit int) ([]wireMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	var list []wireMessage
	err := a.query(ctx, account, http.MethodPost, "message/query", nil, map[string]any{
		"after": max(after, 0), "offset": offset, "limit": limit, "sort": "ASC", "with": []string{"chat", "attachment"},
	}, &list)
	return list, err
}
