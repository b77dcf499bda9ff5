package contact

import (
	"bytes"
	"encoding/json"
)

// FieldText returns a custom field's value as a cell of a CSV file shows it: a text as it is, null as "", anything
// else as JSON. The export writes it and the import compares with it, so that importing an export changes nothing.
func FieldText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		if v == 0 {
			return "0" // the ledger keeps the sign of a zero, the read model does not
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "" // not possible for what was decoded from JSON
	}
	return string(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
