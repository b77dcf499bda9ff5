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
)

// dataDir is the folder in which a dev keeps everything:
//
//	postgres/       the private PostgreSQL
//	keys.json       the installation's secrets, 0600; without them personal data is lost
//	session.secret  signs session tokens, 0600
//	dev.json        how to reach the running dev, and as whom, 0600
//	database        the address of the database when it is not the private one, 0600
//	dev.lock        held (flock) by the running dev, which writes its process id into it
//	tools.lock      held, shared, by every tool that uses the private PostgreSQL
type dataDir string

func (d dataDir) file(name string) string { return filepath.Join(string(d), name) }
func (d dataDir) postgres() string        { return d.file("postgres") }
func (d dataDir) keys() string            { return d.file("keys.json") }
func (d dataDir) sessionSecret() string   { return d.file("session.secret") }
func (d dataDir) devFile() string         { return d.file("dev.json") }
func (d dataDir) database() string        { return d.file("database") }

// create makes the folder when it is missing. Others may pass through, since PostgreSQL may run as another user; its
// files are for their owner alone.
func (d dataDir) create() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil { //nolint:gosec // see above
		return fmt.Errorf("make the data folder: %w", err)
	}
	return nil
}

// inUseError says that another dev runs in the folder.
type inUseError struct {
	dir dataDir
	pid string
}

func (e *inUseError) Error() string {
	who := "another `ledgerline dev`"
	if e.pid != "" {
		who += " (process " + e.pid + ")"
	}
	return fmt.Sprintf("the data folder %s is in use by %s: stop that one, or choose another folder with --data DIR", e.dir, who)
}

// lock makes this process the folder's dev. The kernel gives the lock back however the process ends, so that a file
// that was left over means nothing. It is an *inUseError when there is a dev already.
func (d dataDir) lock(ctx context.Context) (*os.File, error) {
	patience, stop := context.WithTimeout(ctx, time.Second) // a tool that only looks holds it for a moment
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
		case <-patience.Done():
			pid, _ := os.ReadFile(d.file("dev.lock"))
			return nil, &inUseError{d, strings.TrimSpace(string(pid))}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// devRuns tells whether a dev runs in the folder.
func (d dataDir) devRuns() bool {
	f, err := flock(d.file("dev.lock"), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// flock opens a file and locks it.
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

// keyring opens the folder's keyring, and makes it the first time.
func (d dataDir) keyring() (*eventstore.Keyring, error) {
	if err := makeKeys(d.keys()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return eventstore.OpenKeyring(d.keys(), false)
}

// makeKeys makes a file with fresh secrets; fs.ErrExist when there is one.
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

// secret reads the folder's session secret, and makes it the first time.
func (d dataDir) secret() ([]byte, error) {
	err := createSecret(d.sessionSecret(), []byte(rand.Text()+rand.Text()+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readSecret(d.sessionSecret())
}

// readSecret reads a secret from a file; white space around it does not count.
func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

// createSecret writes a file that only its owner can read, whole or not at all; fs.ErrExist when there is one.
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

// replaceSecret is createSecret in place of what is there.
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

// draftOf writes a file beside path, and to the disk.
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
