package phone

import (
	"regexp"
	"slices"

	"github.com/nyaruka/phonenumbers"
)

// maxZones is from how many zones on a number says nothing about where it is: toll-free numbers have dozens.
const maxZones = 4

// TimeZones names the time zones that a number may be in (decisions section 7). Of a number that may be in more than four, or that
// nobody knows, only what is right on both coasts is right.
func TimeZones(e164 string) []string {
	zones, err := phonenumbers.GetTimezonesForPrefix(e164)
	if err != nil || len(zones) == 0 || len(zones) > maxZones || slices.Contains(zones, phonenumbers.UNKNOWN_TIMEZONE) {
		return []string{"America/New_York", "America/Los_Angeles"}
	}
	return zones
}

var (
	// written is what may be a number within a text.
	written = regexp.MustCompile(`\+?\(?[0-9][0-9 ().\-/\x{00a0}]{5,22}[0-9]`)
	// local is a number without its area code.
	local = regexp.MustCompile(`^[2-9][0-9]{2}[-. ][0-9]{4}$`)
)

// ContainsNumber tells whether a text has a phone number in it, in international form or as the US and Canada write it, also
// without the area code.
func ContainsNumber(text string) bool {
	for _, candidate := range written.FindAllString(text, -1) {
		if local.MatchString(candidate) {
			return true
		}
		number, err := phonenumbers.Parse(candidate, defaultRegion)
		if err == nil && phonenumbers.IsPossibleNumberWithReason(number) == phonenumbers.IS_POSSIBLE {
			return true
		}
	}
	return false
}
