package consent

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Keyword is what a whole message asks for.
type Keyword int

// What a message can ask for.
const (
	None Keyword = iota
	Stop
	Start
	Help
)

var (
	stopWords  = []string{"stop", "stopall", "stop all", "unsubscribe", "cancel", "end", "quit", "revoke", "optout", "opt out", "opt-out", "remove", "arret"}
	startWords = []string{"start", "unstop"}
	helpWords  = []string{"help", "info"}
	// agreeWord opts in only a contact that is opted out: from anybody else it answers a question.
	agreeWord = "yes"
)

// StopWords are the built-in words that opt out.
func StopWords() []string { return slices.Clone(stopWords) }

// Recognise reads a whole message. optedOut is the sender's consent at that moment; custom words are added to the STOP
// words. The word is the one recognised, in its normal form; "" with None.
func Recognise(text string, optedOut bool, custom []string) (keyword Keyword, word string) {
	said := normal(text)
	switch {
	case said == "":
		return None, ""
	case isOneOf(said, stopWords), isOneOf(said, custom):
		return Stop, said
	case isOneOf(said, startWords), optedOut && said == agreeWord:
		return Start, said
	case isOneOf(said, helpWords):
		return Help, said
	}
	return None, ""
}

func isOneOf(said string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return said == normal(w) })
}

// normal folds case and width, strips accents, punctuation, quotes, symbols and marks, and collapses spaces: "Arrêt !" is
// arret, and ＳＴＯＰ is stop.
func normal(text string) string {
	stripped := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPunct(r), unicode.IsSymbol(r), unicode.IsMark(r), unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(text))
	return strings.Join(strings.Fields(stripped), " ")
}
