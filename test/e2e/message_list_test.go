package e2e_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/app"
)

func TestMessagesAreListedByNumberAndDate(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards, app.TwoNodes())
		first, second := a.Phone(), a.Phone()
		early := send(a.Live, first, "early")
		a.Settle()
		a.Advance(time.Hour)
		late, other := send(a.Live, first, "late"), send(a.Live, second, "to somebody else")
		a.Settle()
		line, _ := message(a.Live, early)["from"].(string)
		inbound := a.Inbound(first, line, "thanks")
		a.Settle()
		list := func(query ...string) []any {
			values := url.Values{}
			for i := 0; i < len(query); i += 2 {
				values.Set(query[i], query[i+1])
			}
			return a.Live.Get("/v1/messages?" + values.Encode()).Is(200).Column("id")
		}
		const hour, later = "2026-03-02T18:00:00Z", "2026-03-02T19:00:00Z"
		require.ElementsMatch(t, []any{early, late}, list("to", first))
		require.ElementsMatch(t, []any{inbound}, list("from", first))
		require.ElementsMatch(t, []any{inbound}, list("to", line))
		require.Contains(t, list("from", line), any(early))
		require.NotContains(t, list("from", line), any(inbound))
		require.Empty(t, list("to", "+16465559999"), "a number that nobody has")
		require.ElementsMatch(t, []any{early}, list("created_before", hour))
		require.ElementsMatch(t, []any{late, other, inbound}, list("created_after", hour))
		require.ElementsMatch(t, []any{late}, list("to", first, "created_after", hour, "created_before", later))
		require.Empty(t, list("created_after", later))
		a.Live.Get("/v1/messages?to=12").Refused(400, "validation_failed", "query /to invalid_phone")
		a.Live.Get("/v1/messages?from=x").Refused(400, "validation_failed", "query /from invalid_phone")
		a.Live.Get("/v1/messages?created_after=x").Is(400)
		require.Empty(t, a.NewOrganisation("Other").Live.Get("/v1/messages?to="+url.QueryEscape(first)).Is(200).Data())
	})
}
