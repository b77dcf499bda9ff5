package importjob

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"ledgerline/domain/fault"
)

// The targets of a mapping, beside fields.KEY (rule CON-44).
const (
	targetPhone     = "phone"
	targetFirstName = "first_name"
	targetLastName  = "last_name"
	targetCompany   = "company"
	targetEmail     = "email"
	targetLabels    = "labels"
	targetConsent   = "consent_status"
	targetIgnore    = "ignore"
	fieldPrefix     = "fields."
)

var targets = []string{targetPhone, targetFirstName, targetLastName, targetCompany, targetEmail, targetLabels, targetConsent, targetIgnore}

// maxKey is the longest key of a custom field, in characters.
const maxKey = 100

// Mapping says what the columns of a file mean (rule CON-44).
type Mapping struct {
	columns []column
	width   int // number of columns of the header
}

type column struct {
	index  int
	target string
}

// NewMapping checks a mapping of header names to targets against the header of a file. It finds a name as it is
// written, or else without the spaces around it. Columns without a mapping are ignored. All problems are refused
// together, with validation_failed at /mapping/NAME.
func NewMapping(header []string, mapping map[string]string) (Mapping, error) {
	m := Mapping{width: len(header)}
	var issues []fault.Issue
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		target, pointer := mapping[name], "/mapping/"+pointerEscaper.Replace(name)
		report := func(code, message string) {
			issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
		}
		found := find(header, name)
		key, isField := strings.CutPrefix(target, fieldPrefix)
		switch {
		case !isField && !slices.Contains(targets, target):
			report("invalid_value", "A column is mapped to "+strings.Join(targets, ", ")+" or fields.<key>.")
		case isField && key == "":
			report("invalid_value", "The key of a custom field is missing: fields.<key>.")
		case isField && utf8.RuneCountInString(key) > maxKey:
			report("too_long", "The key of a custom field has at most 100 characters.")
		case len(found) == 0:
			report("unknown_header", "The file has no column with this name.")
		case len(found) > 1:
			report("duplicate_header", "The file has several columns with this name.")
		case target == targetIgnore:
		case taken[target] || taken["column "+header[found[0]]]:
			report("duplicate_target", "Each target is given by one column, and each column has one target.")
		default:
			taken[target], taken["column "+header[found[0]]] = true, true
			m.columns = append(m.columns, column{found[0], target})
		}
	}
	if !taken[targetPhone] && !slices.ContainsFunc(issues, func(i fault.Issue) bool { return i.Path != "" && isAboutPhoneColumn(mapping, i.Path) }) {
		issues = append(issues, fault.Issue{Location: "body", Path: "/mapping", Code: "required", Message: "One column must be mapped to phone."})
	}
	if len(issues) > 0 {
		return m, fault.Invalids(issues...)
	}
	return m, nil
}

// isAboutPhoneColumn reports whether the issue at pointer is about the column that is mapped to phone. Then NewMapping
// adds no issue about a missing phone.
func isAboutPhoneColumn(mapping map[string]string, pointer string) bool {
	for name, target := range mapping {
		if target == targetPhone && pointer == "/mapping/"+pointerEscaper.Replace(name) {
			return true
		}
	}
	return false
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// find returns the columns with a name.
func find(header []string, name string) (found []int) {
	for i, h := range header {
		if h == name {
			found = append(found, i)
		}
	}
	if len(found) > 0 {
		return found
	}
	for i, h := range header {
		if strings.TrimSpace(h) == strings.TrimSpace(name) {
			found = append(found, i)
		}
	}
	return found
}
