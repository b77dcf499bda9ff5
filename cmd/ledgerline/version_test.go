package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionCommandDescribesTheBuild(t *testing.T) {
	t.Parallel()
	var shown build
	tool(t, &shown, "version")
	require.NotEmpty(t, shown.Version)
	require.Equal(t, runtime.Version(), shown.Go)

	plain := launch(t, "--version")
	require.Equal(t, exitOK, plain.code())
	require.Equal(t, shown.Version+"\n", plain.out.String())
}
