package bluebubbles_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/adapters/bluebubbles"
)

// FuzzReports checks that any body that a server posts is answered with one of the stated statuses.
func FuzzReports(f *testing.F) {
	for _, seed := range []string{
		`{"type":"new-message","data":{"guid":"A","text":"hi","isFromMe":false,"handle":{"address":"` + contact + `","service":"iMessage"}}}`,
		`{"type":"updated-message","data":{"guid":"A","isFromMe":true,"dateDelivered":1,"error":22}}`,
		`{"type":"message-send-error","data":{"guid":"temp-1","attachments":[{"guid":"x","mimeType":"a/b","totalBytes":-1}]}}`,
		`{"type":"new-message","data":{"chats":[{"guid":"iMessage;+;chat1"}],"dateCreated":9223372036854775807}}`, `[]`, `{"type":1}`,
	} {
		f.Add(seed)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, body string) {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, bluebubbles.ReportPath(lineID, secret), strings.NewReader(body))
		require.True(t, w.adapter.ServeReport(answer, request, lineID, secret))
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge}, answer.Code)
	})
}
