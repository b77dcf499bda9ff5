package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// lines returns the messages and the numbers of suppressed records that were logged.
func lines(t *testing.T, logged *bytes.Buffer) (list []string) {
	t.Helper()
	for line := range strings.Lines(logged.String()) {
		var entry struct {
			Msg        string `json:"msg"`
			Suppressed *int   `json:"suppressed"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		text, _, _ := strings.Cut(entry.Msg, ";")
		if entry.Suppressed != nil {
			text += fmt.Sprintf(" (%d)", *entry.Suppressed)
		}
		list = append(list, text)
	}
	return list
}

func TestOutageOfTheDatabaseIsLoggedOnceThenOnceAMinuteAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var away atomic.Bool
		o := newOutage(slog.NewJSONHandler(&logged, nil), func(context.Context) error {
			if away.Load() {
				return errors.New("refused")
			}
			return nil
		})
		log, lost := o.logger().With("process", "sending"), fmt.Errorf("feed: %w", io.ErrUnexpectedEOF)

		log.Warn("a connection was cut", "error", lost)
		log.Error("the request failed", "error", &url.Error{Op: "Post", URL: "https://example.com", Err: io.EOF})
		synctest.Wait()
		require.ElementsMatch(t, []string{"a connection was cut", "the request failed"}, lines(t, &logged), "the database answers: nothing is suppressed")

		logged.Reset()
		away.Store(true)
		for range 125 {
			log.Error("cannot read", "error", lost)
			log.Info("request", "error", lost)
			time.Sleep(time.Second) //nolint:forbidigo // by the test's own clock
		}
		log.Error("panic", "error", errors.New("another error"))
		away.Store(false)
		time.Sleep(2 * time.Second) //nolint:forbidigo // by the test's own clock
		synctest.Wait()
		var found []string
		for _, line := range lines(t, &logged) {
			if line != "request" {
				found = append(found, line)
			}
		}
		require.Len(t, found, 5, found)
		require.Equal(t, "service: the database cannot be reached", found[0])
		require.Contains(t, found[1], "service: the database still cannot be reached (")
		require.Contains(t, found[2], "service: the database still cannot be reached (")
		require.Equal(t, []string{"panic", "service: the database answers again (125)"}, found[3:])

		logged.Reset()
		log.Error("cannot read", "error", lost)
		o.close()
		log.Error("stopped", "error", lost)
		require.Equal(t, []string{"cannot read", "stopped"}, lines(t, &logged), "nothing is lost when the node stops")
	})
}

func TestErrorsOfTheDatabaseItselfAreNoOutage(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{"57P01": true, "57P03": true, "08006": true, "23505": false, "53300": false, "42P01": false} {
		require.Equal(t, want, isConnectionError(fmt.Errorf("query: %w", &pgconn.PgError{Code: code})), code)
	}
	require.True(t, isConnectionError(context.DeadlineExceeded))
	require.False(t, isConnectionError(context.Canceled))
	require.False(t, isConnectionError(errors.New("something else")))
}
