package input

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"ledgerline/domain/fault"
)

// Huma keeps its validation settings and message texts in package variables. They are set once, before any endpoint is
// registered. A text begins with the issue's code and a bar; IssueOf splits them. A required property has its name
// between the two.
func init() { //nolint:gochecknoinits // the library has no other way to set them
	huma.DefaultArrayNullable = false                               // a list may be empty, never null
	huma.ValidateStrictCasing = true                                // "Phone" is not "phone"
	huma.ErrorFormatter = func(format string, args ...any) string { //nolint:reassign // Huma provides it for this
		if !strings.Contains(format, "%") {
			return format // args has the refused value, which may be personal data, and this text has no placeholder for it
		}
		return fmt.Sprintf(format, args...)
	}

	validation.MsgUnexpectedProperty = "unknown_property|This property is not known."
	validation.MsgExpectedRFC3339DateTime = "invalid_format|Expected a date and time as in RFC 3339."
	validation.MsgExpectedRFC3339Date = "invalid_format|Expected a date as in RFC 3339."
	validation.MsgExpectedRFC3339Time = "invalid_format|Expected a time as in RFC 3339."
	validation.MsgExpectedRFC5322Email = "invalid_format|Expected an e-mail address."
	validation.MsgExpectedRFC3986URI = "invalid_format|Expected a URI."
	validation.MsgExpectedRFC4122UUID = "invalid_format|Expected a UUID."
	validation.MsgExpectedRFCIPAddr = "invalid_format|Expected an IP address."
	validation.MsgExpectedMatchAtLeastOneSchema = "invalid_type|This value has none of the accepted shapes."
	validation.MsgExpectedMatchExactlyOneSchema = "invalid_type|This value must have exactly one of the accepted shapes."
	validation.MsgExpectedNotMatchSchema = "invalid_value|This value is not accepted."
	validation.MsgExpectedBoolean = "invalid_type|Expected true or false."
	validation.MsgExpectedNumber = "invalid_type|Expected a number."
	validation.MsgExpectedInteger = "invalid_type|Expected a whole number."
	validation.MsgExpectedString = "invalid_type|Expected a string."
	validation.MsgExpectedBase64String = "invalid_format|Expected base64."
	validation.MsgExpectedArray = "invalid_type|Expected a list."
	validation.MsgExpectedObject = "invalid_type|Expected an object."
	validation.MsgExpectedArrayItemsUnique = "duplicate_items|The items must differ from each other."
	validation.MsgExpectedOneOf = "invalid_value|Expected one of: %s."
	validation.MsgExpectedMinimumNumber = "too_small|Expected at least %v."
	validation.MsgExpectedExclusiveMinimumNumber = "too_small|Expected more than %v."
	validation.MsgExpectedMaximumNumber = "too_large|Expected at most %v."
	validation.MsgExpectedExclusiveMaximumNumber = "too_large|Expected less than %v."
	validation.MsgExpectedNumberBeMultipleOf = "invalid_value|Expected a multiple of %v."
	validation.MsgExpectedMinLength = "too_short|Expected at least %d characters."
	validation.MsgExpectedMaxLength = "too_long|Expected at most %d characters."
	validation.MsgExpectedBePattern = "invalid_format|Expected %s."
	validation.MsgExpectedMatchPattern = "invalid_format|Expected a text that matches %s."
	validation.MsgExpectedMinItems = "too_few_items|Expected at least %d items."
	validation.MsgExpectedMaxItems = "too_many_items|Expected at most %d items."
	validation.MsgExpectedMinProperties = "too_few_properties|Expected at least %d properties."
	validation.MsgExpectedMaxProperties = "too_many_properties|Expected at most %d properties."
	validation.MsgExpectedRequiredProperty = "required|%s|This property is required."
	validation.MsgExpectedDependentRequiredProperty = "required|%s|This property is required together with %s."
}

// IssueOf converts a problem that Huma found. When Huma could not decode the body, the issue has the location body and
// no code, because Huma's texts for that have no fixed form.
func IssueOf(problem error) fault.Issue {
	detailed, ok := problem.(huma.ErrorDetailer) //nolint:errorlint // Huma never wraps them
	if !ok {
		return fault.Issue{Location: "body"}
	}
	detail := detailed.ErrorDetail()
	issue := fault.Issue{}
	issue.Location, issue.Path = pointerOf(detail.Location)
	parts := strings.Split(detail.Message, "|")
	switch {
	case len(parts) == 3: // Huma reports a required property at the object that lacks it
		issue.Code, issue.Message = parts[0], parts[2]
		issue.Path += "/" + parts[1]
	case len(parts) == 2:
		issue.Code, issue.Message = parts[0], parts[1]
	case issue.Location == "body":
	case strings.HasPrefix(detail.Message, "required "):
		issue.Code, issue.Message = "required", "This parameter is required."
	case detail.Message == "invalid integer":
		issue.Code, issue.Message = "invalid_type", "Expected a whole number."
	case detail.Message == "invalid float":
		issue.Code, issue.Message = "invalid_type", "Expected a number."
	case detail.Message == "invalid boolean":
		issue.Code, issue.Message = "invalid_type", "Expected true or false."
	case strings.HasPrefix(detail.Message, "invalid date/time"):
		issue.Code, issue.Message = "invalid_format", "Expected a date and time as in RFC 3339."
	default:
		issue.Code, issue.Message = "invalid_format", "This value does not have the documented format."
	}
	issue.Path = Cut(issue.Path, MaxPath)
	return issue
}
