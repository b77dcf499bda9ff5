package organisation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/rules"
	"ledgerline/events"
)

// The longest confirmation, in characters, the most STOP words, and the longest of them, in characters (rules CON-20
// and CON-25).
const (
	maxConfirmation = 300
	maxStopWords    = 20
	maxStopWord     = 40
)

// ComplianceChange is what a request changes of the compliance settings; nil leaves a setting as it is.
type ComplianceChange struct {
	QuietHours         *events.QuietHours // both ends "": the platform's quiet hours
	StopWords          *[]string
	OptOutConfirmation *string // "": the standard text
	RequireConsent     *bool
}

// SetCompliance changes the compliance settings; a value that stays the same causes no event. Quiet hours that break
// rule CON-24, STOP words that break rule CON-20, and a confirmation that breaks rule CON-25 are refused together, with
// validation_failed.
func (o Organisation) SetCompliance(c ComplianceChange) ([]events.Event, error) {
	s := o.Settings
	e := &events.ComplianceChanged{
		QuietHours: s.QuietHours, StopKeywords: append([]string{}, s.StopWords...), OptOutConfirmation: s.OptOutConfirmation, RequireConsent: s.RequireConsent,
	}
	var issues []fault.Issue
	if c.QuietHours != nil {
		e.QuietHours = *c.QuietHours
		issues = append(issues, quietHoursIssues(e.QuietHours)...)
	}
	if c.StopWords != nil {
		e.StopKeywords = distinctWords(*c.StopWords)
		issues = append(issues, stopWordIssues(e.StopKeywords)...)
	}
	if c.OptOutConfirmation != nil {
		e.OptOutConfirmation = strings.TrimSpace(*c.OptOutConfirmation)
		if utf8.RuneCountInString(e.OptOutConfirmation) > maxConfirmation {
			issues = append(issues, issue("/opt_out_confirmation", "too_long", "The text has at most 300 characters."))
		}
	}
	if c.RequireConsent != nil {
		e.RequireConsent = *c.RequireConsent
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	if e.QuietHours == s.QuietHours && slices.Equal(e.StopKeywords, s.StopWords) &&
		e.OptOutConfirmation == s.OptOutConfirmation && e.RequireConsent == s.RequireConsent {
		return nil, nil
	}
	return []events.Event{e}, nil
}

// EffectiveQuietHours returns the quiet hours in effect: the organisation's, else the platform's (rule CON-24).
func (s Settings) EffectiveQuietHours() events.QuietHours {
	if s.QuietHours == (events.QuietHours{}) {
		return rules.PlatformQuietHours()
	}
	return s.QuietHours
}

// quietHoursIssues returns the violations of rule CON-24. The platform's quiet hours pass midnight. Hours that cover
// them start at or before the platform's start in the evening and end at or after its end in the morning; messages
// leave between end and start.
func quietHoursIssues(q events.QuietHours) []fault.Issue {
	if q == (events.QuietHours{}) {
		return nil
	}
	starts, ok1 := rules.Minutes(q.Start)
	ends, ok2 := rules.Minutes(q.End)
	var issues []fault.Issue
	if !ok1 {
		issues = append(issues, issue("/quiet_hours/start", "invalid_format", "Expected a time as HH:MM."))
	}
	if !ok2 {
		issues = append(issues, issue("/quiet_hours/end", "invalid_format", "Expected a time as HH:MM."))
	}
	if len(issues) > 0 {
		return issues
	}
	platform := rules.PlatformQuietHours()
	latest, _ := rules.Minutes(platform.Start)
	earliest, _ := rules.Minutes(platform.End)
	switch {
	case starts > latest || starts < earliest:
		return []fault.Issue{issue("/quiet_hours/start", "out_of_range", "Quiet hours must cover "+platform.Start+" to "+platform.End+": they begin at "+platform.Start+" or earlier in the day.")}
	case ends < earliest || ends > latest:
		return []fault.Issue{issue("/quiet_hours/end", "out_of_range", "Quiet hours must cover "+platform.Start+" to "+platform.End+": they end at "+platform.End+" or later in the day.")}
	case starts <= ends:
		return []fault.Issue{issue("/quiet_hours", "out_of_range", "These quiet hours leave no time to send at: they must end before they begin again.")}
	}
	return nil
}

func stopWordIssues(words []string) []fault.Issue {
	var issues []fault.Issue
	if len(words) > maxStopWords {
		issues = append(issues, issue("/stop_keywords", "too_many_items", "Expected at most 20 words."))
	}
	for i, word := range words {
		at := fmt.Sprintf("/stop_keywords/%d", i)
		keyword, folded := consent.Recognise(word, true, []string{word})
		other, _ := consent.Recognise(word, true, nil)
		switch {
		case keyword == consent.None || folded == "":
			issues = append(issues, issue(at, "invalid_value", "A word needs letters or digits."))
		case utf8.RuneCountInString(word) > maxStopWord:
			issues = append(issues, issue(at, "too_long", "A word has at most 40 characters."))
		case other == consent.Start || other == consent.Help:
			issues = append(issues, issue(at, "reserved", "This word is a keyword with another meaning."))
		}
	}
	return issues
}

// distinctWords trims words and drops repeated ones; the order stays.
func distinctWords(words []string) []string {
	list := make([]string, 0, len(words))
	for _, word := range words {
		if word = strings.TrimSpace(word); !slices.Contains(list, word) {
			list = append(list, word)
		}
	}
	return list
}

func issue(pointer, code, message string) fault.Issue {
	return fault.Issue{Location: "body", Path: pointer, Code: code, Message: message}
}
