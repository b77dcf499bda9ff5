package localpg

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// archiveOf builds an archive like those of the repository: a jar with a tar.xz of programs, here scripts that print a
// version.
func archiveOf(t *testing.T, version string) []byte {
	t.Helper()
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is needed to build the archive")
	}
	dir := tempDir(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for program, script := range map[string]string{
		"postgres": "echo 'postgres (PostgreSQL) " + version + "'",
		"initdb":   "echo 'initdb (PostgreSQL) " + version + "'",
		"pg_ctl":   "exit 1",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", program), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	packed, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cJf", "-", "bin").Output()
	require.NoError(t, err)
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	entry, err := archive.Create("postgres.txz")
	require.NoError(t, err)
	_, err = entry.Write(packed)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	return jar.Bytes()
}

func TestADownloadIsUnpackedCompletelyAndRuns(t *testing.T) {
	t.Parallel()
	jar := archiveOf(t, "17.5")
	sum := sha256.Sum256(jar)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(jar)
	}))
	defer server.Close()

	base := tempDir(t)
	home := filepath.Join(base, "postgresql")
	require.NoError(t, fetch(t.Context(), server.URL, downloads[downloadMajor], tempDir(t), home))
	bin, ok := probe(t.Context(), nil, filepath.Join(home, "bin"))
	require.True(t, ok)
	require.Equal(t, "17.5", bin.version)
	require.Equal(t, 17, bin.major)
}

func TestAFailedDownloadLeavesNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	home := filepath.Join(tempDir(t), "postgresql")
	require.ErrorContains(t, fetch(t.Context(), server.URL, downloads[downloadMajor], tempDir(t), home), "no version found")
	require.NoDirExists(t, home)
}
