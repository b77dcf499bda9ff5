// Package treeheads publishes the signed heads of the ledger's trees outside of the database, and reads them back. What
// is published must be kept where the owner of the database cannot change it: on another machine, in a bucket with
// object lock, with an auditor.
package treeheads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Destination is a place that heads are published to.
type Destination struct {
	name    string // without credentials
	publish func(ctx context.Context, shard int, size int64, note string) error
}

// String is the name of the destination, without credentials.
func (d *Destination) String() string { return d.name }

// Publish publishes the head of a shard's tree of size blocks, as a signed note. It may be called again with the same
// head. It returns when the destination has confirmed that it has the head.
func (d *Destination) Publish(ctx context.Context, shard int, size int64, note string) error {
	if err := d.publish(ctx, shard, size, note); err != nil {
		return fmt.Errorf("treeheads: publish to %s: %w", d.name, err)
	}
	return nil
}

// timeout bounds one request.
const timeout = 30 * time.Second

var client = &http.Client{Timeout: timeout}

// Open returns the destination that an address names:
//
//   - a path or file:///path: heads are appended to the file;
//   - http://… or https://…: each head is the body of a POST request, with the user and password of the address;
//   - s3://bucket/prefix: each head is an object of its own, see openS3.
func Open(address string) (*Destination, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("treeheads: this is not a valid address") // the error of the library contains it with its password
	}
	switch u.Scheme {
	case "http", "https":
		return &Destination{u.Redacted(), func(ctx context.Context, _ int, _ int64, note string) error { return post(ctx, address, note) }}, nil
	case "s3":
		return openS3(u)
	case "", "file":
		path := filePath(address)
		return &Destination{path, func(_ context.Context, _ int, _ int64, note string) error { return appendTo(path, note) }}, nil
	}
	return nil, fmt.Errorf("treeheads: %s is no kind of destination: use a file, http, https or s3", u.Scheme)
}

func filePath(address string) string { return strings.TrimPrefix(address, "file://") }

// appendTo appends a head to a file, with one write, and waits for the disk.
func appendTo(path, note string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // heads are public
	if err != nil {
		return err
	}
	if _, err = f.WriteString(note); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func post(ctx context.Context, address, note string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(note))
	if err != nil {
		return errors.New("the address is not valid")
	}
	req.Header.Set("content-type", "text/plain; charset=utf-8")
	return send(req)
}

// send sends a request. Every answer but 2xx is an error.
func send(req *http.Request) error {
	res, err := client.Do(req)
	if err != nil {
		return withoutAddress(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("the answer is %s", res.Status)
	}
	return nil
}

// withoutAddress removes the address, which may contain a password, from the error of a request.
func withoutAddress(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// maxSource bounds what is read from a source, in bytes.
const maxSource = 1 << 30

// Read returns the heads of a source, one signed note after the other: those of a file, of all files below a directory,
// or of the answer to a GET request. A file that does not exist has none.
func Read(ctx context.Context, source string) (string, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return get(ctx, source)
	}
	path := filePath(source)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("treeheads: %w", err)
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return "", fmt.Errorf("treeheads: %w", err)
		}
		return string(text), nil
	}
	var all strings.Builder
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file) //nolint:gosec // as above
		all.Write(text)
		all.WriteByte('\n')
		return err
	})
	if err != nil {
		return "", fmt.Errorf("treeheads: %w", err)
	}
	return all.String(), nil
}

func get(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", errors.New("treeheads: the address is not valid")
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("treeheads: read %s: %w", req.URL.Redacted(), withoutAddress(err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("treeheads: read %s: the answer is %s", req.URL.Redacted(), res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSource))
	if err != nil {
		return "", fmt.Errorf("treeheads: read %s: %w", req.URL.Redacted(), err)
	}
	return string(text), nil
}
