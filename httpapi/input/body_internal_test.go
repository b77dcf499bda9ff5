package input

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonicalFormEqualsEncodingJSON(t *testing.T) {
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

func TestNumberOfIssuesOfABodyIsBounded(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 400_000)
	for _, many := range []string{`"\u0000",`, `{"a":1,"a":2},`, `9007199254740992,`} {
		body, err := decodeBody([]byte(`{"` + name + `":[` + strings.Repeat(many, 10_000) + `0]}`))
		require.NoError(t, err)
		body.addInexact()
		require.Len(t, body.Issues, MaxIssues+1, many)
	}
}

func TestDecodedTreeEqualsEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`0`, ` -1.5e+3 `, `"a"`, "\t[ ]\r\n", `[[],{},[{}],null,true,false]`, `{"a" : {"b":[1 , 2,{"c":"d"}]} ,"e":"" }`,
		`"\ud83d\ude00 \ud800 \\ \" \/ ü ` + "\u2028" + `"`, `{"\u0061":1,"":2,"a\\":3}`,
	} {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var want any
		require.NoError(t, decoder.Decode(&want), text)
		got, duplicates := decodeJSON([]byte(text))
		require.Equal(t, want, got, text)
		require.Empty(t, duplicates)
	}
}
