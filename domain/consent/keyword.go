package consent

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Keyword is what a whole message from a contact asks for.
type Keyword int

// The keywords (rule CON-19).
const (
	None Keyword = iota
	Stop
	Start
	Help
)

// String returns stop, start or help; "" for None.
func (k Keyword) String() string { return [...]string{"", "stop", "start", "help"}[k] }

var (
	stopWords  = []string{"stop", "stopall", "stop all", "unsubscribe", "cancel", "end", "quit", "revoke", "optout", "opt out", "opt-out", "remove", "arret"}
	startWords = []string{"start", "unstop"}
	helpWords  = []string{"help", "info"}
	// agreeWord opts in a contact that is opted out. From any other contact it answers a question.
	agreeWord = "yes"

	builtIn = foldedWords()
)

// foldedWords returns the built-in words as Fold returns them, with what they ask for.
func foldedWords() map[string]Keyword {
	folded := map[string]Keyword{}
	for keyword, words := range map[Keyword][]string{Stop: stopWords, Start: startWords, Help: helpWords} {
		for _, word := range words {
			folded[Fold(word)] = keyword
		}
	}
	return folded
}

// StopWords returns the built-in words that opt out.
func StopWords() []string { return slices.Clone(stopWords) }

// Recognise compares a whole message with the keywords (rule CON-19). optedOut is whether the sender is opted out;
// custom are the organisation's own STOP words (rule CON-20). word is the recognised word in its folded form, "" with
// None.
func Recognise(text string, optedOut bool, custom []string) (keyword Keyword, word string) {
	folded := Fold(text)
	switch {
	case folded == "":
		return None, ""
	case builtIn[folded] == Stop, isOneOf(folded, custom):
		return Stop, folded
	case optedOut && folded == agreeWord:
		return Start, folded
	case builtIn[folded] != None:
		return builtIn[folded], folded
	}
	return None, ""
}

func isOneOf(folded string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return folded == Fold(w) })
}

// Fold returns a text as keywords are compared (rule CON-19): it folds case and width, drops accents, punctuation,
// quotes, symbols and marks, and collapses spaces. "Arrêt !" becomes arret, and ＳＴＯＰ becomes stop.
func Fold(text string) string {
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
