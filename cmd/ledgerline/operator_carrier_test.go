package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPasswordIsTheFirstLineOfTheStandardInput(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a b\nc\n", "a b\r\n", "a b"} {
		got, err := password(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, "a b", got)
	}
	_, err := password(strings.NewReader("\n"))
	require.ErrorIs(t, err, errUsage)
}
