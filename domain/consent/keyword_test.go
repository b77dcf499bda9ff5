package consent_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/consent"
)

func TestKeywordIsAWholeMessageInAnyCaseAndPunctuation(t *testing.T) {
	t.Parallel()
	type row struct {
		text     string
		optedOut bool
		want     consent.Keyword
		word     string
	}
	rows := []row{
		{"stop", false, consent.Stop, "stop"},
		{"STOP", false, consent.Stop, "stop"},
		{" Stop. ", false, consent.Stop, "stop"},
		{"“Stop!”", false, consent.Stop, "stop"},
		{"'stop'", false, consent.Stop, "stop"},
		{"`STOP`", false, consent.Stop, "stop"},
		{"stop\n", false, consent.Stop, "stop"},
		{"Stop 🛑", false, consent.Stop, "stop"},
		{"s\u200btop", false, consent.Stop, "stop"},
		{"stop  \t all", false, consent.Stop, "stop all"},
		{"Opt-Out", false, consent.Stop, "optout"},
		{"opt out", false, consent.Stop, "opt out"},
		{"ARRÊT", false, consent.Stop, "arret"},
		{"arre\u0302t", false, consent.Stop, "arret"}, // the accent typed apart
		{"ＳＴＯＰ", false, consent.Stop, "stop"},
		{"stop it", false, consent.None, ""},
		{"please stop", false, consent.None, ""},
		{"don't stop", false, consent.None, ""},
		{"nonstop", false, consent.None, ""},
		{"", false, consent.None, ""},
		{"!!!", false, consent.None, ""},
		{"start", false, consent.Start, "start"},
		{"UNSTOP", true, consent.Start, "unstop"},
		{"Yes!", true, consent.Start, "yes"},
		{"yes", false, consent.None, ""},
		{"yes please", true, consent.None, ""},
		{"HELP?", false, consent.Help, "help"},
		{"info", true, consent.Help, "info"},
		{"\xff\xfe", false, consent.None, ""},
	}
	for _, word := range consent.StopWords() {
		rows = append(rows, row{strings.ToUpper(word), false, consent.Stop, strings.ReplaceAll(word, "-", "")})
	}
	for _, r := range rows {
		got, word := consent.Recognise(r.text, r.optedOut, nil)
		require.Equal(t, r.want, got, "%q", r.text)
		require.Equal(t, r.word, word, "%q", r.text)
	}
}

func TestOrganisationsWordsAddToTheStopWords(t *testing.T) {
	t.Parallel()
	custom := []string{"No More!", "yes", "??"}
	for text, want := range map[string]consent.Keyword{
		"no more": consent.Stop, "stop": consent.Stop, "YES": consent.Stop, "": consent.None, "!": consent.None, "more": consent.None,
	} {
		got, _ := consent.Recognise(text, true, custom)
		require.Equal(t, want, got, text)
	}
}

func FuzzPunctuationNeverHidesAStopWord(f *testing.F) {
	f.Add("stop", 0)
	f.Add("hello", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		keyword, word := consent.Recognise(text, false, nil)
		if keyword == consent.None {
			require.Empty(t, word)
		} else {
			again, same := consent.Recognise(word, false, nil)
			require.Equal(t, keyword, again)
			require.Equal(t, word, same)
		}
		words := consent.StopWords()
		stop := words[(at%len(words)+len(words))%len(words)]
		if !utf8.ValidString(text) {
			return
		}
		decorated := strings.Map(func(r rune) rune {
			if strings.ContainsRune(" .,!?\"'-\n\t()", r) {
				return r
			}
			return -1
		}, text)
		keyword, _ = consent.Recognise(decorated+strings.ToUpper(stop)+decorated, false, nil)
		require.Equal(t, consent.Stop, keyword)
	})
}
