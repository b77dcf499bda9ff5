package twilio

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// An attachment from a contact stays at the provider, behind the credentials of the account. The service serves it
// under a path that contains its encrypted address: whoever has the path can fetch it. Only the path is stored, because
// the base URL of the service may change.

func (a *Adapter) mediaPath(connectionID, path string) (string, error) {
	token, err := a.cfg.AEAD.Encrypt([]byte(path), mediaData(connectionID))
	if err != nil {
		return "", fmt.Errorf("twilio: seal attachment: %w", err)
	}
	return MediaPath(connectionID, base64.RawURLEncoding.EncodeToString(token)), nil
}

func mediaData(connectionID string) []byte { return []byte("sms attachment " + connectionID) }

// MediaPath is the path of an attachment.
func MediaPath(connectionID, token string) string { return Path(connectionID) + "/media/" + token }

// maxToken bounds a token, in bytes.
const maxToken = 1024

// ServeMedia answers a request for an attachment from a contact. It returns false, and writes nothing, when there is
// none. The answer is always a download and never a page, because a contact has made its content.
func (a *Adapter) ServeMedia(w http.ResponseWriter, r *http.Request, connectionID, token string) (found bool) {
	if len(token) > maxToken {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return false
	}
	path, err := a.cfg.AEAD.Decrypt(sealed, mediaData(connectionID))
	if err != nil {
		return false
	}
	account, err := a.cfg.Accounts.Account(r.Context(), connectionID)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, a.api+string(path), nil)
	if err != nil {
		return false
	}
	request.SetBasicAuth(account.AccountSID, account.AuthToken) // a redirect to another host does not get it
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
