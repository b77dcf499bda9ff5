package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ledgerline/eventstore"
	"ledgerline/service"
)

// dataDir is the data directory of the command dev:
//
//	postgres/       the private PostgreSQL
//	keys.json       the installation's secrets, 0600; without them personal data is lost
//	heads.txt       the published heads of the ledger's trees
//	session.secret  the secret that signs session tokens, 0600
//	dev.json        addresses, keys and ids of the running dev, 0600
//	database        the URL of the database when it is not the private one, 0600
//	dev.lock        locked (flock) by the running dev; holds its process id
//	tools.lock      locked (flock, shared) by every tool that uses the private PostgreSQL
type dataDir string

func (d dataDir) file(name string) string { return filepath.Join(string(d), name) }
func (d dataDir) postgres() string        { return d.file("postgres") }
func (d dataDir) keys() string            { return d.file("keys.json") }
func (d dataDir) sessionSecret() string   { return d.file("session.secret") }
func (d dataDir) devFile() string         { return d.file("dev.json") }
func (d dataDir) heads() string           { return d.file("heads.txt") }
func (d dataDir) database() string        { return d.file("database") }

// create makes the directory when it is missing, and reports whether it did. Other users may enter it, because
// PostgreSQL may run as another user; its files are readable by their owner only.
func (d dataDir) create() (created bool, err error) {
	created = !exists(string(d))
	if err := os.MkdirAll(string(d), 0o755); err != nil { //nolint:gosec // see above
		return false, fmt.Errorf("make the data directory: %w", err)
	}
	return created, nil
}

// inUseError reports that another dev runs in the directory.
type inUseError struct {
	dir dataDir
	pid string
}

func (e *inUseError) Error() string {
	who := "another `ledgerline dev`"
	if e.pid != "" {
		who += " (process " + e.pid + ")"
	}
	return fmt.Sprintf("the data directory %s is in use by %s: stop that one, or choose another one with --data DIR", e.dir, who)
}

// lock takes the lock by which this process is the only dev of the directory. It returns an *inUseError when another
// process has the lock. The kernel releases the lock however the process ends, so a remaining file does not matter.
func (d dataDir) lock(ctx context.Context) (*os.File, error) {
	waiting, stop := context.WithTimeout(ctx, time.Second) // a tool that calls devRuns holds the lock for a moment
	defer stop()
	for {
		f, err := flock(d.file("dev.lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if err = f.Truncate(0); err == nil {
				_, err = f.WriteString(strconv.Itoa(os.Getpid()))
			}
			if err != nil {
				_ = f.Close()
				return nil, fmt.Errorf("write dev.lock: %w", err)
			}
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-waiting.Done():
			pid, _ := os.ReadFile(d.file("dev.lock"))
			return nil, &inUseError{d, strings.TrimSpace(string(pid))}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// devRuns reports whether a dev runs in the directory.
func (d dataDir) devRuns() bool {
	f, err := flock(d.file("dev.lock"), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// flock opens a file and locks it with flock(2).
func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// keyring opens the keyring of the directory, and creates it for a database that was never used. New keys for a
// database that belongs to others would be taken for the right ones later.
func (d dataDir) keyring(ctx context.Context, dsn string) (*eventstore.Keyring, error) {
	keyring, err := eventstore.OpenKeyring(d.keys())
	if !errors.Is(err, fs.ErrNotExist) {
		return keyring, err
	}
	pool, err := service.Connect(ctx, dsn, 1, 0)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	used, err := eventstore.IsUsed(ctx, pool)
	if err != nil {
		return nil, err
	}
	if used {
		return nil, fmt.Errorf("the database has data, and its keys file %s is missing: put the file back, or use another data directory or database", d.keys())
	}
	if err := makeKeys(d.keys()); err != nil {
		return nil, err
	}
	return eventstore.OpenKeyring(d.keys())
}

// makeKeys creates a file with new secrets. It returns fs.ErrExist when the file exists.
func makeKeys(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	_, text, err := eventstore.NewKeyring()
	if err != nil {
		return err
	}
	return createSecret(path, text)
}

// secret reads the session secret of the directory, which it creates the first time.
func (d dataDir) secret() ([]byte, error) {
	err := createSecret(d.sessionSecret(), []byte(rand.Text()+rand.Text()+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readSecret(d.sessionSecret())
}

// readSecret reads a secret from a file and removes white space around it.
func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

// createSecret creates a file that only its owner can read, atomically. It returns fs.ErrExist when the file exists.
func createSecret(path string, content []byte) error {
	draft, err := draftOf(path, content)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft) }()
	if err := os.Link(draft, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replaceSecret is createSecret for a file that may exist: it replaces it.
func replaceSecret(path string, content []byte) error {
	draft, err := draftOf(path, content)
	if err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// draftOf writes and syncs a temporary file beside path.
func draftOf(path string, content []byte) (draft string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return f.Name(), nil
}
