package contact_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/contact"
)

func TestCustomFieldOfAnyTypeIsShownAsText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`null`: "", `""`: "", `"a\nb"`: "a\nb", `"<b>"`: "<b>", `41`: "41", `-1.5`: "-1.5", `1e300`: "1e+300", `true`: "true", `false`: "false",
		`{"b":1,"a":["<",null]}`: `{"a":["<",null],"b":1}`, `[]`: "[]", `-0`: "0",
	} {
		var decoded any
		require.NoError(t, json.Unmarshal([]byte(value), &decoded))
		require.Equal(t, want, contact.FieldText(decoded), value)
	}
	require.Equal(t, "0", contact.FieldText(math.Copysign(0, -1)))
}
