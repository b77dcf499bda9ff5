package rules_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/rules"
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
		"see evil。com":                                 {"link"},
		"see evil｡com":                                 {"link"},
		"see ｅｖｉｌ．ｃｏｍ":                                 {"link"},
		"see evil\u200b.com":                           {"link"},
		"see e\u00advil.com":                           {"link"},
		"sam＠example．com":                              {"email"},
		"call ４１５５５５２６７１":                              {"phone_number"},
		"call ٤١٥-٥٥٥-٢٦٧١":                            {"phone_number"},
		"call 415–555–2671":                            {"phone_number"},
		"call 415\u2009555\u202f2671":                  {"phone_number"},
		"call ①(415)555–2671":                          {"phone_number"},
		"你好。我是小明，今天下午见。":                               nil,
		"Grüße — bis später, 3 × 4 = 12 ½":             nil,
		"a@example.com or www.example.com, 4155552671": {"link", "email", "phone_number"},
	} {
		f := ready()
		f.Replied, f.Body = false, body
		v := rules.Check(f)
		if want == nil {
			require.Equal(t, rules.Send, v.Decision, "%q: %v", body, v.Detail)
			continue
		}
		require.Equal(t, "first_message_rules", v.Deferral.Reason, body)
		require.Nil(t, v.Deferral.Until)
		require.True(t, v.MayBeOvertaken())
		require.Equal(t, want, v.Detail["rules"], body)
		f.Replied = true
		require.Equal(t, rules.Send, rules.Check(f).Decision, body)
	}
}

func TestDigitsOfAllScriptsAreReadAsDigits(t *testing.T) {
	t.Parallel()
	count := 0
	for _, row := range [][]rune{[]rune("0123456789"), []rune("٠١٢٣٤٥٦٧٨٩"), []rune("०१२३४५६७८९"), []rune("０１２３４５６７８９"), []rune("𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"), []rune("𞥐𞥑𞥒𞥓𞥔𞥕𞥖𞥗𞥘𞥙")} {
		require.Equal(t, "0123456789", rules.Plain(string(row)))
	}
	for r := range unicode.MaxRune {
		if unicode.Is(unicode.Nd, r) {
			require.Contains(t, "0123456789", rules.Plain(string(r)), "%U", r)
			count++
		}
	}
	require.Zero(t, count%10)
}

func FuzzTextsThatAreNotSearchedContainNoAddress(f *testing.F) {
	for _, seed := range []string{"see example.com", "a@b.co", "http://x", "é.de", "1.2.3.4", ".a", "a."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !rules.MayMention(body) {
			require.Empty(t, rules.Mention.FindAllString(body, -1), "%q", body)
		}
	})
}

func TestUntilTheContactRepliesNoMediaAndAtMostThreeMessagesLeave(t *testing.T) {
	t.Parallel()
	f := ready()
	f.Replied, f.Media = false, 1
	require.Equal(t, []string{"media"}, rules.Check(f).Detail["rules"])
	f.Media, f.MessagesBeforeReply = 0, 2
	require.Equal(t, rules.Send, rules.Check(f).Decision)
	f.MessagesBeforeReply = 3
	require.Equal(t, []string{"pre_reply_max_messages"}, rules.Check(f).Detail["rules"])
	f.Routed = true
	require.Equal(t, rules.Send, rules.Check(f).Decision, "it is one of the three, and tried again")
}
