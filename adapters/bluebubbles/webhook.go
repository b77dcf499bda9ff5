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

// ReportPath is where a server reports to. A server signs nothing, so that the secret in the address is what proves it.
func ReportPath(lineID, secret string) string {
	return "/carriers/bluebubbles/" + lineID + "/" + secret
}

// The kinds of reports that a server is asked for.
const (
	reportNew     = "new-message"
	reportChanged = "updated-message"
	reportFailed  = "message-send-error"
)

// maxReport bounds a report, in bytes.
const maxReport = 1 << 20

// ServeReport takes a report; false when line and secret do not fit, which looks like a path that does not exist. Servers do
// not repeat what is refused: what is lost here is read later.
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
	// Compared even when there is no account, and by their hashes, so that the time tells neither.
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
	if err := a.take(r.Context(), account, &m, report.Type == reportNew); err != nil {
		a.cfg.Logger.Warn("bluebubbles: a report was not taken, and will be read later", "line_id", lineID, "kind", report.Type, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	w.WriteHeader(http.StatusOK)
	return true
}
