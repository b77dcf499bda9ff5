package treeheads_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/treeheads"
)

func TestHeadsAreAppendedToAFileAndReadBack(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "file://"} {
		path := filepath.Join(t.TempDir(), "heads.txt")
		none, err := treeheads.Read(t.Context(), prefix+path)
		require.NoError(t, err)
		require.Empty(t, none)
		d, err := treeheads.Open(prefix + path)
		require.NoError(t, err)
		require.NoError(t, d.Publish(t.Context(), 0, 1, "one\n"))
		require.NoError(t, d.Publish(t.Context(), 0, 2, "two\n"))
		text, err := treeheads.Read(t.Context(), prefix+path)
		require.NoError(t, err)
		require.Equal(t, "one\ntwo\n", text)
		text, err = treeheads.Read(t.Context(), prefix+filepath.Dir(path))
		require.NoError(t, err)
		require.Equal(t, "one\ntwo\n\n", text, "all files of a directory")
	}
	d, err := treeheads.Open(filepath.Join(t.TempDir(), "missing", "heads.txt"))
	require.NoError(t, err)
	require.ErrorIs(t, d.Publish(t.Context(), 0, 1, "one\n"), os.ErrNotExist)
}

func TestHeadsArePostedWithTheCredentialsOfTheAddress(t *testing.T) {
	t.Parallel()
	var got []string
	status := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, strings.Join(got, ""))
			return
		}
		if status == http.StatusCreated {
			got = append(got, string(body))
		}
		if user != "notary" || password != "s3cret" || r.Header.Get("content-type") != "text/plain; charset=utf-8" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	address := strings.Replace(server.URL, "http://", "http://notary:s3cret@", 1)
	d, err := treeheads.Open(address)
	require.NoError(t, err)
	require.NotContains(t, d.String(), "s3cret")
	require.NoError(t, d.Publish(t.Context(), 0, 1, "one\n"))
	text, err := treeheads.Read(t.Context(), server.URL)
	require.NoError(t, err)
	require.Equal(t, "one\n", text)
	status = http.StatusInternalServerError
	err = d.Publish(t.Context(), 0, 2, "two\n")
	require.ErrorContains(t, err, "500")
	require.NotContains(t, err.Error(), "s3cret")
	server.Close()
	err = d.Publish(t.Context(), 0, 2, "two\n")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
	_, err = treeheads.Read(t.Context(), address)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestUnknownDestinationsAreRefused(t *testing.T) {
	for _, address := range []string{"ftp://host/x", "s3://", "mailto:a@example.com", "http://[::1"} {
		_, err := treeheads.Open(address)
		require.Error(t, err, address)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	_, err := treeheads.Open("s3://bucket/x")
	require.ErrorContains(t, err, "AWS_ACCESS_KEY_ID")
}

// TestHeadsAreObjectsOfABucket computes the signature of the request on its own, by the rules of Signature Version 4.
func TestHeadsAreObjectsOfABucket(t *testing.T) {
	keyID := "AKIDEXAMPLE"
	secret := strings.Repeat("example", 3)
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return hex.EncodeToString(s[:])
	}
	objects := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at := r.Header.Get("x-amz-date")
		auth := r.Header.Get("authorization")
		_, signed, _ := strings.Cut(auth, "SignedHeaders=")
		signed, _, _ = strings.Cut(signed, ",")
		var headers strings.Builder
		for _, name := range strings.Split(signed, ";") {
			value := r.Header.Get(name)
			switch name {
			case "host":
				value = r.Host
			case "content-length":
				value = fmt.Sprint(len(body))
			}
			headers.WriteString(name + ":" + value + "\n")
		}
		request := r.Method + "\n" + r.URL.EscapedPath() + "\n\n" + headers.String() + "\n" + signed + "\n" + sum(string(body))
		scope := at[:8] + "/eu-central-1/s3/aws4_request"
		key := mac(mac(mac(mac([]byte("AWS4"+secret), at[:8]), "eu-central-1"), "s3"), "aws4_request")
		want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+sum(request)))
		if r.Method != http.MethodPut || r.Header.Get("x-amz-content-sha256") != sum(string(body)) ||
			!strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential="+keyID+"/"+scope+",") || !strings.HasSuffix(auth, "Signature="+want) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		objects[r.URL.Path] = string(body)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", keyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	for address, path := range map[string]string{
		"s3://heads/acme/ledger": "/heads/acme/ledger/shard-3/0000000000000012.note", "s3://heads": "/heads/shard-3/0000000000000012.note",
	} {
		d, err := treeheads.Open(address)
		require.NoError(t, err)
		require.Equal(t, address, d.String())
		require.NoError(t, d.Publish(t.Context(), 3, 12, "a note\n"))
		require.Equal(t, "a note\n", objects[path])
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	d, err := treeheads.Open("s3://heads")
	require.NoError(t, err)
	require.ErrorContains(t, d.Publish(t.Context(), 3, 12, "a note\n"), "403")
}
