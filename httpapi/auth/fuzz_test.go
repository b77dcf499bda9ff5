package auth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/auth"
)

// FuzzSessionTokens checks that no text but a token that was signed is accepted, and that every other one is refused
// with 401.
func FuzzSessionTokens(f *testing.F) {
	cfg := sessions(nil)
	good, err := auth.SignSession(cfg, someUser, time.Hour)
	require.NoError(f, err)
	for _, seed := range []string{
		good, good + "=", good[:len(good)-1], "a.b.c", "..", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJIUzI1NiIsImNyaXQiOlsiYiJdfQ.e30.AA", "ll_live_x", "",
	} {
		f.Add(seed)
	}
	v, err := auth.NewSessionVerifier(cfg)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, token string) {
		session, err := v.Verify(t.Context(), token)
		if token == good {
			require.NoError(t, err)
			require.Equal(t, someUser, session.User)
			return
		}
		require.True(t, fault.Is(err, fault.Unauthorized), "%q: %v", token, err)
	})
}
