package input

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
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
	for _, many := range []string{`"\u0000",`, `{"a":1,"a":2},`, `9007199254740992,`, "\"\xff\","} {
		body, err := decodeBody([]byte(`{"` + name + `":[` + strings.Repeat(many, 5_000) + `0]}`))
		require.NoError(t, err)
		body.addInexact()
		require.InDelta(t, MaxIssues, len(body.Issues), 1, many)
		for _, issue := range body.Issues {
			require.LessOrEqual(t, len(issue.Path), MaxPath+len("…"), many)
		}
	}
}

// counting is an endless body of one repeated text. It counts what was read.
type counting struct {
	repeated string
	read     int
}

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.repeated[c.read%len(c.repeated)]
		c.read++
	}
	return len(p), nil
}

func (c *counting) Close() error { return nil }

func TestABodyWithTooManyValuesOrLevelsIsRefusedWhileItIsRead(t *testing.T) {
	t.Parallel()
	const limit = 32 << 20
	for _, repeated := range []string{"[],", "[", "0,", "{},", `{"a":[`, `"\\\"",`} {
		body := &counting{repeated: repeated}
		_, err := ReadBody(&http.Request{Header: http.Header{}, Body: body, ContentLength: limit}, limit)
		require.True(t, fault.Is(err, fault.BadRequest), repeated)
		require.Less(t, body.read, maxDiscarded+(1<<20), repeated)
	}
}

func TestBracketsAndCommasInTextsAreNoValues(t *testing.T) {
	t.Parallel()
	text := `{"csv":"` + strings.Repeat(`a,\"[{,\\\\`, 50_000) + `"}`
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		body, err := ReadBody(&http.Request{Header: http.Header{}, Body: io.NopCloser(r), ContentLength: -1}, 1<<20)
		require.NoError(t, err)
		require.Empty(t, body.Issues)
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
