package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// Lookup is the request of POST /v1/lookup.
type Lookup struct {
	Body struct {
		Phone string `json:"phone" maxLength:"32" doc:"E.164"`
	}
}

// Check implements httpapi.Checked.
func (in *Lookup) Check() []fault.Issue { return phoneIssues("/phone", in.Body.Phone) }

// LookupAnswer says whether a number is on the chat channel.
type LookupAnswer struct {
	Phone     string            `json:"phone" doc:"E.164"`
	Chat      bool              `json:"chat" doc:"Whether the number is reachable on the chat channel"`
	CheckedAt httpapi.Timestamp `json:"checked_at"`
	Cached    bool              `json:"cached" doc:"Known from before: results are kept for 30 days"`
}

func lookupAnswer(found commands.NumberLookup) LookupAnswer {
	return LookupAnswer{Phone: found.Phone, Chat: found.OnChat, CheckedAt: httpapi.TimestampOf(found.ChatCheck.CheckedAt), Cached: found.Cached}
}

func (a *API) lookup(ctx context.Context, c *httpapi.Call, in *Lookup) (httpapi.WriteResult, error) {
	ask := commands.LookUpNumber{Phone: in.Body.Phone, Answer: recordedBody(c, lookupAnswer), Lines: func(ctx context.Context) ([]string, error) {
		if err := a.store.WaitForHead(ctx, a.store.Ledger().ShardOf(c.OrganisationID), projections.Lines); err != nil {
			return nil, err
		}
		return a.store.LineIDs(ctx, c.WorkspaceID, c.Test)
	}}
	found, err := a.app.LookUpNumber(ctx, request(c), ask, a.outside.Prober)
	return resultWithBody(c, found.Result, found, lookupAnswer, err)
}
