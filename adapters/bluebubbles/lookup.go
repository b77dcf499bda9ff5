package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"ledgerline/processes/carrier"
)

// errUnsettled says that a try is too recent for its absence to mean anything.
var errUnsettled = errors.New("bluebubbles: it is too early to know whether the server took the message")

const (
	// skew is how far a server's clock may be behind the database's.
	skew = 2 * 60 * 1000
	// maxPages bounds how much of what a server has sent is looked through.
	pageSize = 500
	maxPages = 20
)

// Lookup implements carrier.Carrier. What has no id yet is looked for among what the server has sent to that number
// since the try, and belongs to no other message of ours.
func (a *Adapter) Lookup(ctx context.Context, out carrier.Outbound) (carrier.Accepted, bool, error) {
	if out.Channel != "chat" { // it is refused, always
		return carrier.Accepted{}, false, nil
	}
	tries, err := a.tried(ctx, out.MessageID)
	if err != nil {
		return carrier.Accepted{}, false, err
	}
	wanted := wants(&out)
	var accepted carrier.Accepted
	for i := range tries {
		t := &tries[i]
		if t.GUID == nil && t.Part < len(wanted) {
			if err := a.look(ctx, &out, t, wanted[t.Part]); err != nil {
				return carrier.Accepted{}, false, err
			}
		}
		if t.GUID == nil {
			return carrier.Accepted{}, false, a.lost(ctx, out.MessageID, t.Part)
		}
		if t.Part == 0 {
			accepted.CarrierID = *t.GUID
		}
	}
	// A message of which a part was never tried goes on when it is sent again.
	return accepted, len(tries) == len(wanted) && len(tries) > 0, nil
}

// want is how a part is recognised.
type want struct {
	text string // of a text
	file string // name of an attachment
}

func wants(out *carrier.Outbound) []want {
	var list []want
	if out.Body != "" {
		list = append(list, want{text: plain(out.Body)})
	}
	for i := range out.Media {
		list = append(list, want{file: fileName(&out.Media[i], "")})
	}
	return list
}

func (w *want) fits(m *wireMessage) bool {
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

// extended tells whether a name is another one with an extension, which it got when its type was known.
func extended(name, short string) bool {
	return len(name) > len(short)+1 && name[:len(short)] == short && name[len(short)] == '.'
}

// look finds a part at the server. It leaves t.GUID nil when the server certainly has not taken it.
func (a *Adapter) look(ctx context.Context, out *carrier.Outbound, t *tried, w want) error {
	account, err := a.cfg.Lines.Account(ctx, t.LineID)
	if err != nil {
		return err
	}
	guid, err := a.search(ctx, account, out.To, t, w)
	switch {
	case err != nil:
		return err
	case guid == "" && !t.Settled:
		return errUnsettled
	case guid == "":
		return nil
	}
	if err := a.took(ctx, out.MessageID, t.Part, guid); err != nil {
		return err
	}
	t.GUID = &guid
	return nil
}

func (a *Adapter) search(ctx context.Context, account Account, to string, t *tried, w want) (guid string, err error) {
	for page := range maxPages {
		list, err := a.messages(ctx, account, t.BegunMS-skew, page*pageSize, pageSize)
		if err != nil {
			return "", err
		}
		var candidates []string
		for i := range list {
			if m := &list[i]; m.FromMe && m.GUID != "" && m.with(to) && w.fits(m) {
				candidates = append(candidates, m.GUID)
			}
		}
		taken, err := a.ours(ctx, account.LineID, candidates)
		if err != nil {
			return "", err
		}
		for _, candidate := range candidates {
			if !taken[candidate] {
				return candidate, nil
			}
		}
		if len(list) < pageSize {
			return "", nil
		}
	}
	return "", fmt.Errorf("%w: there is too much to look through", errUnsettled)
}

// messages reads a stretch of what a server has, from a time on, oldest first.
func (a *Adapter) messages(ctx context.Context, account Account, after int64, offset, limit int) ([]wireMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	var list []wireMessage
	err := a.query(ctx, account, http.MethodPost, "message/query", nil, map[string]any{
		"after": max(after, 0), "offset": offset, "limit": limit, "sort": "ASC", "with": []string{"chat", "attachment"},
	}, &list)
	return list, err
}
