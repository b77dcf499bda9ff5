package contact

import (
	"bytes"
	"encoding/json"
)

// FieldText is the value of a custom field as a cell of a file shows it: a text as it is, null as nothing, everything else
// as JSON. The export writes it and the import compares with it, so that a file which says what is there already changes
// nothing, whatever the type of the value.
func FieldText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		if v == 0 {
			return "0" // the read model does not keep the sign of a zero, the ledger does
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
