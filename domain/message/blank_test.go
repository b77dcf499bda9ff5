package message_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/message"
)

func TestBodyWithoutVisibleCharactersIsBlank(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", " ", "\r\n\t", "\u00a0\u2003", "\u200b\u200d\ufeff", "\u0007", "\u2060 \u00ad"} {
		require.True(t, message.Blank(body), "%q", body)
	}
	for _, body := range []string{".", " ?\n", "é", "👋", "\u200dي"} {
		require.False(t, message.Blank(body), "%q", body)
	}
}
