package bluebubbles

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"ledgerline/adapters/outward"
	"ledgerline/events"
	"ledgerline/processes/carrier"
)

// file is a fetched attachment. It is on disk, since several large ones at the same time would not fit into memory.
type file struct {
	name string
	disk *os.File
}

func (f *file) close() {
	_ = f.disk.Close()
	_ = os.Remove(f.disk.Name())
}

// parts splits a message and fetches its attachments. An attachment that cannot be fetched is a *carrier.Rejected, or
// wraps carrier.ErrTransient if fetching it may succeed later.
func (a *Adapter) parts(ctx context.Context, out carrier.Outbound) ([]part, error) {
	var list []part
	if out.Body != "" {
		list = append(list, part{text: out.Body})
	}
	space := a.cfg.MaxMedia
	for i := range out.Media {
		f, size, err := a.fetchFile(ctx, &out.Media[i], space)
		if err != nil {
			return list, err
		}
		space -= size
		list = append(list, part{file: f})
	}
	return list, nil
}

// fetchFile fetches an attachment of at most space bytes.
func (a *Adapter) fetchFile(ctx context.Context, m *events.Media, space int64) (f *file, size int64, err error) {
	later := func(err error) error {
		return fmt.Errorf("%w: bluebubbles: an attachment cannot be fetched: %w", carrier.ErrTransient, bare(err))
	}
	forGood := &carrier.Rejected{Code: failure(0)}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL, nil)
	if err != nil {
		return nil, 0, forGood
	}
	response, err := a.fetch.Do(request)
	switch {
	case errors.Is(err, outward.ErrInside):
		return nil, 0, forGood
	case err != nil:
		return nil, 0, later(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return nil, 0, later(fmt.Errorf("status %d", response.StatusCode))
	case response.StatusCode != http.StatusOK, response.ContentLength > space:
		return nil, 0, forGood
	}
	disk, err := os.CreateTemp("", "ledgerline-media-*")
	if err != nil {
		return nil, 0, later(err)
	}
	f = &file{name: fileName(m, response.Header.Get("Content-Type")), disk: disk}
	size, err = io.Copy(disk, io.LimitReader(response.Body, space+1))
	switch {
	case err != nil:
		f.close()
		return nil, 0, later(err)
	case size > space, size == 0:
		f.close()
		return nil, 0, forGood
	}
	return f, size, nil
}

// fileName is the name that the contact sees. Devices show an attachment by its extension, so a name without one gets
// one.
func fileName(m *events.Media, contentType string) string {
	name := ""
	if m.Filename != nil {
		name = *m.Filename
	} else if at, err := url.Parse(m.URL); err == nil {
		name = path.Base(at.Path)
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == '/' || r == '\\' || r == ':' || r == '"' {
			return '_'
		}
		return r
	}, name)
	name = strings.TrimLeft(name, ".")
	if name == "" || name == "_" {
		name = "attachment"
	}
	if path.Ext(name) == "" {
		if m.MIME != nil {
			contentType = *m.MIME
		}
		kind, _, _ := mime.ParseMediaType(contentType)
		if known, _ := mime.ExtensionsByType(kind); len(known) > 0 {
			name += known[0]
		}
	}
	return name
}

// form is a multipart body of fields and a file, assembled while it is sent.
type form struct{ io.Reader }

func (f *file) form(fields map[string]string) (body io.Reader, contentType string, err error) {
	if _, err := f.disk.Seek(0, io.SeekStart); err != nil {
		return nil, "", fmt.Errorf("bluebubbles: attachment: %w", err)
	}
	var head, tail strings.Builder
	parts := multipart.NewWriter(&head)
	for name, value := range fields {
		if err := parts.WriteField(name, value); err != nil {
			return nil, "", fmt.Errorf("bluebubbles: attachment: %w", err)
		}
	}
	if _, err := parts.CreateFormFile("attachment", f.name); err != nil {
		return nil, "", fmt.Errorf("bluebubbles: attachment: %w", err)
	}
	tail.WriteString("\r\n--" + parts.Boundary() + "--\r\n")
	// The caller closes the file.
	return &form{io.MultiReader(strings.NewReader(head.String()), f.disk, strings.NewReader(tail.String()))}, parts.FormDataContentType(), nil
}

// An attachment from a contact stays on the server, behind its password. The service serves it under a path that
// contains the encrypted id of the attachment: whoever has the address can fetch it. Only the path is stored, because
// the base URL of the service may change.

func (a *Adapter) mediaPath(lineID, guid string) (string, error) {
	token, err := a.cfg.AEAD.Encrypt([]byte(guid), mediaData(lineID))
	if err != nil {
		return "", fmt.Errorf("bluebubbles: seal attachment: %w", err)
	}
	return MediaPath(lineID, base64.RawURLEncoding.EncodeToString(token)), nil
}

func mediaData(lineID string) []byte { return []byte("bluebubbles attachment " + lineID) }

// MediaPath is the path of an attachment.
func MediaPath(lineID, token string) string {
	return "/carriers/bluebubbles/" + lineID + "/media/" + token
}

// maxToken bounds a token, in bytes.
const maxToken = 512

// ServeMedia answers a request for an attachment from a contact. It returns false, and writes nothing, when there is
// none. The answer is always a download and never a page, because a contact has made its content.
func (a *Adapter) ServeMedia(w http.ResponseWriter, r *http.Request, lineID, token string) (found bool) {
	if len(token) > maxToken {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return false
	}
	guid, err := a.cfg.AEAD.Decrypt(sealed, mediaData(lineID))
	if err != nil {
		return false
	}
	account, err := a.cfg.Lines.Account(r.Context(), lineID)
	if err != nil {
		return false
	}
	request, err := newRequest(r.Context(), account, http.MethodGet, "attachment/"+url.PathEscape(string(guid))+"/download", nil, nil)
	if err != nil {
		return false
	}
	response, err := a.http.Do(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return false
	case response.StatusCode != http.StatusOK:
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if group, _, _ := strings.Cut(kind, "/"); group != "image" && group != "audio" && group != "video" || kind == "image/svg+xml" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", "attachment")
	if response.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	_, _ = io.Copy(w, response.Body) // an error means that the client has gone
	return true
}
