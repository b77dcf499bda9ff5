package bluebubbles

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// ReportPath is the path to which a server posts its webhooks. Servers sign nothing: the secret in the path
// authenticates them.
func ReportPath(lineID, secret string) string {
	return "/carriers/bluebubbles/" + lineID + "/" + secret
}

// The kinds of webhooks to which the adapter subscribes.
const (
	reportNew     = "new-message"
	reportChanged = "updated-message"
	reportFailed  = "message-send-error"
)

// maxReport bounds the body of a webhook, in bytes.
const maxReport = 1 << 20

// ServeReport handles a webhook of a server. It returns false, and writes nothing, when line and secret do not belong
// together; the caller answers as for a path that does not exist. Servers do not repeat a webhook that failed; the next
// poll finds its message.
func (a *Adapter) ServeReport(w http.ResponseWriter, r *http.Request, lineID, secret string) (found bool) {
	const longest = 128
	if len(secret) > longest || len(lineID) > longest || !strings.HasPrefix(lineID, "ln_") {
		return false
	}
	account, err := a.cfg.Lines.Account(r.Context(), lineID)
	if err != nil && !errors.Is(err, ErrNoAccount) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	// Compared even when there is no account, and by hash, so that the time of the answer reveals neither.
	given, wanted := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(account.Secret))
	if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 || account.Secret == "" {
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return true
	}
	var report struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(body, &report) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return true
	}
	if report.Type != reportNew && report.Type != reportChanged && report.Type != reportFailed {
		w.WriteHeader(http.StatusOK)
		return true
	}
	var m wireMessage
	if json.Unmarshal(report.Data, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return true
	}
	if err := a.handle(r.Context(), account, &m, report.Type == reportNew); err != nil {
		a.cfg.Logger.Warn("bluebubbles: a webhook was not handled; the next poll reads its message", "line_id", lineID, "kind", report.Type, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	w.WriteHeader(http.StatusOK)
	return true
}
