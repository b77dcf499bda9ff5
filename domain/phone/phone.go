// Package phone reads phone numbers as people write them and returns them as E.164 (rule API-4). It also knows their
// time zones, and finds numbers in texts.
package phone

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/nyaruka/phonenumbers"

	"ledgerline/domain/fault"
)

// defaultRegion is the country of numbers without a country code.
const defaultRegion = "US"

var (
	sandboxNumber = regexp.MustCompile(`^\+1[0-9]{3}55501[0-9]{2}$`)
	// separators drops what people write between digits. It serves sandbox numbers only: their area codes need not
	// exist, so that the library cannot read them.
	separators = strings.NewReplacer(" ", "", "-", "", ".", "", "(", "", ")", "", "/", "", "\u00a0", "")
)

// IsSandbox reports whether an E.164 number is a sandbox number (rule SND-60).
func IsSandbox(e164 string) bool { return sandboxNumber.MatchString(e164) }

// Parse reads a number in international form, or in the national form of the US and Canada, and returns it as E.164
// (rule API-4). An invalid number is refused with validation_failed, issue invalid_phone at pointer.
func Parse(input, pointer string) (string, error) {
	if e164, ok := Read(input); ok {
		return e164, nil
	}
	return "", fault.Invalid(pointer, "invalid_phone", "This is not a valid phone number.")
}

// Read is Parse for callers that make their own error: ok is false for an invalid number.
func Read(input string) (e164 string, ok bool) {
	input = strings.TrimSpace(input)
	if e164, ok := readSandbox(input); ok {
		return e164, true
	}
	if strings.ContainsFunc(input, unicode.IsLetter) { // vanity numbers, extensions, tel: addresses
		return "", false
	}
	number, err := phonenumbers.Parse(input, defaultRegion)
	if err != nil || !phonenumbers.IsValidNumber(number) || number.GetExtension() != "" {
		return "", false
	}
	return phonenumbers.Format(number, phonenumbers.E164), true
}

func readSandbox(input string) (string, bool) {
	digits := separators.Replace(input)
	switch {
	case strings.HasPrefix(digits, "+"):
	case len(digits) == 10:
		digits = "+1" + digits
	default:
		digits = "+" + digits
	}
	return digits, IsSandbox(digits)
}
