package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

var errNoNode = errors.New("there is no node")

// send makes one request to the node that runs.
func (t *trial) send(ctx context.Context, client *http.Client, method, path, secret, key string, body []byte) (status int, answer []byte, replayed bool, err error) {
	address := t.address.Load()
	if address == nil {
		return 0, nil, false, errNoNode
	}
	request, err := http.NewRequestWithContext(ctx, method, *address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, false, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("authorization", "Bearer "+secret)
	if body != nil {
		request.Header.Set("content-type", "application/json")
	}
	if key != "" {
		request.Header.Set("idempotency-key", key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, false, fmt.Errorf("send: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, false, fmt.Errorf("read the answer: %w", err)
	}
	return response.StatusCode, answer, response.Header.Get("idempotent-replayed") == "true", nil
}

// sendOnce sends a write once and returns true if it was answered. A broken connection, a 5xx, and a conflict with the
// same key that is still running are no answers: the write has to be repeated.
func (t *trial) sendOnce(ctx context.Context, client *http.Client, w *write) bool {
	status, body, _, err := t.send(ctx, client, http.MethodPost, w.path, w.secret(), w.key, w.body)
	if err != nil || mustRetry(status, body) {
		return false
	}
	w.status, w.answer = status, body
	return true
}

func mustRetry(status int, body []byte) bool {
	if status >= http.StatusInternalServerError {
		return true
	}
	if status != http.StatusConflict {
		return false
	}
	var a answer
	return json.Unmarshal(body, &a) == nil && a.Error.Code == "idempotency_conflict"
}
