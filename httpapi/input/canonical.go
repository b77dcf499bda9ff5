package input

import (
	"encoding/json"
	"slices"
)

// appendCanonical appends a decoded body (json.Number, string, bool, nil, []any, map[string]any) as JSON with sorted
// keys and numbers as they were written. json.Marshal gives the same bytes at three times the cost, because it uses
// reflection.
func appendCanonical(to []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendText(to, v)
	case json.Number:
		return append(to, v...)
	case bool:
		if v {
			return append(to, "true"...)
		}
		return append(to, "false"...)
	case []any:
		to = append(to, '[')
		for i, item := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendCanonical(to, item)
		}
		return append(to, ']')
	case map[string]any:
		names := make([]string, 0, 16)
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		to = append(to, '{')
		for i, name := range names {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendText(to, name), ':')
			to = appendCanonical(to, v[name])
		}
		return append(to, '}')
	default:
		return append(to, "null"...)
	}
}

// appendText appends a quoted text. Plain ASCII, which is the usual case, needs no escaping.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			quoted, _ := json.Marshal(text) //nolint:errchkjson // a string always has a JSON form
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
