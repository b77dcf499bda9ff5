// Package phone reads phone numbers as people type them and gives them in E.164 (decisions section 1).
package phone

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/nyaruka/phonenumbers"

	"ledgerline/domain/fault"
)

// defaultRegion is where a number without a country code is read.
const defaultRegion = "US"

var (
	sandboxNumber = regexp.MustCompile(`^\+1[0-9]{3}55501[0-9]{2}$`)
	// typed strips what people put between digits, for sandbox numbers only: their area codes need not exist, so the
	// library cannot be asked to read them.
	typed = strings.NewReplacer(" ", "", "-", "", ".", "", "(", "", ")", "", "/", "", "\u00a0", "")
)

// IsSandbox tells whether an E.164 number is one of the scripted sandbox numbers.
func IsSandbox(e164 string) bool { return sandboxNumber.MatchString(e164) }

// Parse reads a number, in international form or in the national form of the US and Canada. What is no valid number is
// refused with validation_failed, issue invalid_phone at the body's pointer.
func Parse(input, pointer string) (string, error) {
	if e164, ok := Read(input); ok {
		return e164, nil
	}
	return "", fault.Invalid(pointer, "invalid_phone", "This is not a valid phone number.")
}

// Read is Parse for callers that say themselves what is wrong.
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
	digits := typed.Replace(input)
	switch {
	case strings.HasPrefix(digits, "+"):
	case len(digits) == 10:
		digits = "+1" + digits
	default:
		digits = "+" + digits
	}
	return digits, IsSandbox(digits)
}
