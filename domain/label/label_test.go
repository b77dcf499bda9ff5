package label_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/events"
)

func TestLabelNameIsTrimmedAndBounded(t *testing.T) {
	t.Parallel()
	made, err := label.Create(uuid.New(), " VIP ", nil, "/name")
	require.NoError(t, err)
	require.Equal(t, "VIP", label.Label{}.Apply(made[0], events.Envelope{}).Name)
	_, err = label.Create(uuid.New(), strings.Repeat("ä", 64), nil, "/name")
	require.NoError(t, err)
	for name, code := range map[string]string{"": "required", "  ": "required", strings.Repeat("a", 65): "too_long", "a\nb": "invalid_value"} {
		_, err := label.Create(uuid.New(), name, nil, "/labels/3")
		require.Equal(t, []string{"/labels/3", code}, []string{fault.Of(err).Issues[0].Path, fault.Of(err).Issues[0].Code})
	}
}

func TestLabelNamesAreComparedWithoutRegardToCase(t *testing.T) {
	t.Parallel()
	workspace := uuid.New()
	_, one := label.Claim(workspace, " VIP")
	_, other := label.Claim(workspace, "vip")
	require.Equal(t, one, other)
}
