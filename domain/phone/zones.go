package phone

import (
	"regexp"
	"slices"

	"github.com/nyaruka/phonenumbers"
)

// maxZones is the largest number of time zones that says where a number is: toll-free numbers have dozens.
const maxZones = 4

// TimeZones returns the time zones that a number may lie in (rule SND-11). For a number with more than four zones, or
// an unknown one, it returns New York and Los Angeles.
func TimeZones(e164 string) []string {
	zones, err := phonenumbers.GetTimezonesForPrefix(e164)
	if err != nil || len(zones) == 0 || len(zones) > maxZones || slices.Contains(zones, phonenumbers.UNKNOWN_TIMEZONE) {
		return []string{"America/New_York", "America/Los_Angeles"}
	}
	return zones
}

var (
	// candidate matches what may be a phone number within a text.
	candidate = regexp.MustCompile(`\+?\(?[0-9][0-9 ().\-/\x{00a0}]{5,22}[0-9]`)
	// local matches a number without its area code.
	local = regexp.MustCompile(`^[2-9][0-9]{2}[-. ][0-9]{4}$`)
)

// ContainsNumber reports whether a text contains a phone number, in international form or as the US and Canada write
// it, with or without the area code (rule SND-14).
func ContainsNumber(text string) bool {
	for _, found := range candidate.FindAllString(text, -1) {
		if local.MatchString(found) {
			return true
		}
		number, err := phonenumbers.Parse(found, defaultRegion)
		if err == nil && phonenumbers.IsPossibleNumberWithReason(number) == phonenumbers.IS_POSSIBLE {
			return true
		}
	}
	return false
}
