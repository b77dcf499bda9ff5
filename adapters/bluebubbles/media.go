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

// file is an attachment that was fetched, on disk: several senders with large ones would not fit into memory.
type file struct {
	name string
	disk *os.File
}

func (f *file) close() {
	_ = f.disk.Close()
	_ = os.Remove(f.disk.Name())
}

// parts takes a message apart and fetches its attachments. What cannot be fetched is refused for good, unless the other
// side may be better later.
func (a *Adapter) parts(ctx context.Context, out carrier.Outbound) ([]part, error) {
	var list []part
	if out.Body != "" {
		list = append(list, part{text: out.Body})
	}
	room := a.cfg.MaxMedia
	for i := range out.Media {
		f, size, err := a.fetchFile(ctx, &out.Media[i], room)
		if err != nil {
			return list, err
		}
		room -= size
		list = append(list, part{file: f})
	}
	return list, nil
}

// fetchFile fetches an attachment of at most room bytes.
func (a *Adapter) fetchFile(ctx context.Context, m *events.Media, room int64) (f *file, size int64, err error) {
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
	case response.StatusCode != http.StatusOK, response.ContentLength > room:
		return nil, 0, forGood
	}
	disk, err := os.CreateTemp("", "ledgerline-media-*")
	if err != nil {
		return nil, 0, later(err)
	}
	f = &file{name: fileName(m, response.Header.Get("Content-Type")), disk: disk}
	size, err = io.Copy(disk, io.LimitReader(response.Body, room+1))
	switch {
	case err != nil:
		f.close()
		return nil, 0, later(err)
	case size > room, size == 0:
		f.close()
		return nil, 0, forGood
	}
	return f, size, nil
}

// fileName is the name that the contact sees. The type decides how a device shows it, so that a name without an
// extension gets one.
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

// form is a multipart body of fields and a file, which are put together while they are sent.
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
	// Closing is left to the file's owner.
	return &form{io.MultiReader(strings.NewReader(head.String()), f.disk, strings.NewReader(tail.String()))}, parts.FormDataContentType(), nil
}

// An attachment of a contact's lies on the server, behind its password. It is shown under an address of ours that names
// it in a sealed form: who has the address can fetch it, as with addresses of attachments everywhere. Told is only the path:
// under which name this service is reached, those who show it know, and it may change.

func (a *Adapter) mediaPath(lineID, guid string) (string, error) {
	token, err := a.cfg.AEAD.Encrypt([]byte(guid), mediaData(lineID))
	if err != nil {
		return "", fmt.Errorf("bluebubbles: seal attachment: %w", err)
	}
	return MediaPath(lineID, base64.RawURLEncoding.EncodeToString(token)), nil
}

func mediaData(lineID string) []byte { return []byte("bluebubbles attachment " + lineID) }

// MediaPath is where attachments are shown.
func MediaPath(lineID, token string) string {
	return "/carriers/bluebubbles/" + lineID + "/media/" + token
}

// maxToken bounds a token, in bytes.
const maxToken = 512

// ServeMedia answers a request for a contact's attachment; false when there is none. It is always a file to be kept,
// never a page: what it holds is the contact's.
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
	_, _ = io.Copy(w, response.Body) // whoever went away has no need of the rest
	return true
}
