package message

import (
	"encoding/json"

	"ledgerline/domain/fault"
)

// The bounds of the caller's own data on a message (rule SND-6).
const (
	maxMetadataKeys  = 50
	maxMetadataBytes = 16 << 10 // as JSON
)

// CheckMetadata refuses metadata that is too large with validation_failed at /metadata.
func CheckMetadata(metadata map[string]any) error {
	if len(metadata) == 0 {
		return nil
	}
	text, err := json.Marshal(metadata)
	switch {
	case err != nil:
		return fault.Invalid("/metadata", "invalid_value", "Metadata is JSON.")
	case len(metadata) > maxMetadataKeys:
		return fault.Invalid("/metadata", "too_many", "Metadata has at most %d keys.", maxMetadataKeys)
	case len(text) > maxMetadataBytes:
		return fault.Invalid("/metadata", "too_long", "Metadata has at most %d bytes as JSON.", maxMetadataBytes)
	}
	return nil
}
