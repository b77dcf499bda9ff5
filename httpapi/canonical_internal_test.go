package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCanonicalFormIsWhatTheLibraryWrites(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"b":1.10,"a":[1e5,-0,true,false,null,{}],"":"","ü":"\u2028\"\\/\n\u0001","x":{"z":[],"y":"🙂"}}`, `[]`, `"a"`, `null`, `12345678901234567890`,
	} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var tree any
		require.NoError(t, decoder.Decode(&tree))
		want, err := json.Marshal(tree)
		require.NoError(t, err)
		require.Equal(t, string(want), string(appendCanonical(nil, tree)))
	}
}
