package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// repository is the Maven repository that holds the builds.
const repository = "https://repo1.maven.org/maven2"

// downloadMajor is the major version that is downloaded when PostgreSQL is not installed.
const downloadMajor = 17

// downloads are the builds in the repository, by major version.
var downloads = map[int]embedded.PostgresVersion{
	14: embedded.V14, 15: embedded.V15, 16: embedded.V16, 17: embedded.V17, 18: embedded.V18,
}

// download returns the build of a major version. It downloads the build once and keeps it for all directories of the
// machine.
func download(ctx context.Context, acct *account, major int, progress func(string)) (binaries, error) {
	version, ok := downloads[major]
	if !ok {
		return binaries{}, fmt.Errorf("there is no build of PostgreSQL %d to download", major)
	}
	base, err := downloadBase(acct)
	if err != nil {
		return binaries{}, err
	}
	home := filepath.Join(base, "postgresql-"+string(version))
	if bin, ok := probe(ctx, acct, filepath.Join(home, "bin")); ok {
		return bin, nil
	}
	progress(fmt.Sprintf("downloading PostgreSQL %s, once", version))
	if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // the server's user must be able to enter it
		return binaries{}, fmt.Errorf("localpg: %w", err)
	}
	scratch, err := os.MkdirTemp(base, "download-")
	if err != nil {
		return binaries{}, fmt.Errorf("localpg: %w", err)
	}
	fetched := make(chan error, 1)
	go func() {
		err := fetch(ctx, repository, version, scratch, home)
		_ = os.RemoveAll(scratch)
		fetched <- err
	}()
	select {
	case err := <-fetched:
		if err != nil {
			return binaries{}, err
		}
	case <-ctx.Done(): // the library cannot be interrupted: its goroutine goes on until it is done
		return binaries{}, fmt.Errorf("localpg: download PostgreSQL: %w", context.Cause(ctx))
	}
	bin, ok := probe(ctx, acct, filepath.Join(home, "bin"))
	if !ok {
		return binaries{}, fmt.Errorf("the downloaded PostgreSQL in %s does not run here", home)
	}
	return bin, nil
}

// downloadBase is the directory of downloaded builds. The server's user can enter it.
func downloadBase(acct *account) (string, error) {
	if acct != nil {
		return "/var/cache/ledgerline", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("localpg: no directory for downloads: %w", err)
	}
	return filepath.Join(cache, "ledgerline"), nil
}

// fetch downloads and unpacks a build into home, completely or not at all. The library cannot only download: its Start
// downloads, unpacks and starts a server. fetch lets Start fail after unpacking, on a data directory that holds nothing
// but a version number, and then looks whether the programs are there.
func fetch(ctx context.Context, repository string, version embedded.PostgresVersion, scratch, home string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	data, unpacked := filepath.Join(scratch, "data"), filepath.Join(scratch, "unpacked")
	if err := os.Mkdir(data, 0o700); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	major, _, _ := strings.Cut(string(version), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	started := embedded.NewDatabase(embedded.DefaultConfig().
		BinaryRepositoryURL(repository).
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		BinariesPath(unpacked).
		DataPath(data).
		Logger(io.Discard)).Start()
	if _, err := os.Stat(filepath.Join(unpacked, "bin", "postgres")); err != nil {
		return errors.Join(started, err)
	}
	if err := os.Rename(unpacked, home); err != nil {
		if _, statErr := os.Stat(filepath.Join(home, "bin", "postgres")); statErr != nil {
			return fmt.Errorf("localpg: %w", err)
		} // another process has put the build there
	}
	return nil
}
