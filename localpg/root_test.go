package localpg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only for root")
	}
}

func TestAsRootTheServerRunsAsAnotherUser(t *testing.T) {
	t.Parallel()
	asRoot(t)
	server := start(t, Config{DataDir: tempDir(t)})
	owner, ok := ownerOf(filepath.Join(server.Dir(), "data"))
	require.True(t, ok)
	require.NotZero(t, owner)
	require.Equal(t, server.dir.account.uid, owner)
}

func TestAsRootAnUnreachableDirectoryIsRelocated(t *testing.T) {
	t.Parallel()
	asRoot(t)
	home, base := tempDir(t), filepath.Join(tempDir(t), "lib", "ledgerline")
	require.NoError(t, os.Chmod(home, 0o700))
	path := filepath.Join(home, "project", ".ledgerline", "postgres")

	var lines []string
	progress := func(line string) { lines = append(lines, line) }
	dir, err := openDirectory(t.Context(), path, base, progress)
	require.NoError(t, err)
	require.Equal(t, base, filepath.Dir(dir.root))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], dir.root)

	again, err := openDirectory(t.Context(), path, base, progress)
	require.NoError(t, err)
	require.Equal(t, dir.root, again.root)

	server := start(t, Config{DataDir: path})
	require.Equal(t, dir.root, server.Dir())
	require.NoError(t, server.Stop(t.Context()))

	require.NoError(t, os.RemoveAll(dir.root))
	fresh, err := openDirectory(t.Context(), path, base, progress)
	require.NoError(t, err)
	require.NotEqual(t, dir.root, fresh.root)
	require.Contains(t, lines[1], "beginning anew")
}

func TestAsRootDataThatBecameUnreachableIsReported(t *testing.T) {
	t.Parallel()
	asRoot(t)
	home := tempDir(t)
	path := filepath.Join(home, "postgres")
	server := start(t, Config{DataDir: path})
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, os.Chmod(home, 0o700))
	_, err := Start(t.Context(), Config{DataDir: path})
	require.ErrorContains(t, err, "cannot reach it")
}
