package sending_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/sending"
)

func TestUntilTheContactRepliesAMessageIsShortAndPlain(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		"Hello, it is Sam from the shop.":              nil,
		strings.Repeat("é", 300):                       nil,
		strings.Repeat("é", 301):                       {"pre_reply_max_chars"},
		"see https://example.com/x":                    {"link"},
		"see example.com":                              {"link"},
		"write to sam@example.com":                     {"email"},
		"call 415-555-2671":                            {"phone_number"},
		"call (415) 555 2671 now":                      {"phone_number"},
		"call +44 20 7183 8750":                        {"phone_number"},
		"call 555-2671":                                {"phone_number"},
		"order 12345678 of 2026-03-02 costs 1,299.00":  nil,
		"at 10:30, table 12":                           nil,
		"a@example.com or www.example.com, 4155552671": {"link", "email", "phone_number"},
	} {
		f := ready()
		f.Replied, f.Body = false, body
		v := sending.Check(f)
		if want == nil {
			require.Equal(t, sending.Go, v.Outcome, "%q: %v", body, v.Detail)
			continue
		}
		require.Equal(t, "first_message_rules", v.Hold.Reason, body)
		require.Nil(t, v.Hold.Until)
		require.True(t, v.StepsAside())
		require.Equal(t, want, v.Detail["rules"], body)
		f.Replied = true
		require.Equal(t, sending.Go, sending.Check(f).Outcome, body)
	}
}

func FuzzWhatIsSparedTheSearchHasNoAddressInIt(f *testing.F) {
	for _, seed := range []string{"see example.com", "a@b.co", "http://x", "é.de", "1.2.3.4", ".a", "a."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !sending.MayMention(body) {
			require.Empty(t, sending.Mention.FindAllString(body, -1), "%q", body)
		}
	})
}

func TestUntilTheContactRepliesNoMediaAndAtMostThreeMessagesLeave(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Replied, f.Media = false, 1
	require.Equal(t, []string{"media"}, sending.Check(f).Detail["rules"])
	f.Media, f.Earlier = 0, 2
	require.Equal(t, sending.Go, sending.Check(f).Outcome)
	f.Earlier = 3
	require.Equal(t, []string{"pre_reply_max_messages"}, sending.Check(f).Detail["rules"])
	f.Counted = true
	require.Equal(t, sending.Go, sending.Check(f).Outcome, "it is one of the three, and tried again")
}
