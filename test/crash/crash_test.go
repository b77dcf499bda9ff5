package crash_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ledgerline/test/crash"
)

// nodeEnv makes the test binary a node.
const nodeEnv = "CRASH_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) == "" {
		os.Exit(m.Run())
	}
	if err := crash.Node(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestNothingIsLostOrDoneTwiceWhenNodeAndPostgreSQLAreKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			var table bytes.Buffer
			reports, err := crash.Run(t.Context(), crash.Config{
				Rounds: 2, Shards: []int{shards}, Callers: 16, For: time.Second, Out: &table, Log: t.Output(),
				Node: []string{"/usr/bin/env", nodeEnv + "=yes", self},
			})
			t.Log(table.String())
			require.NoError(t, err)
			require.Len(t, reports, 1)
			r := reports[0]
			require.Equal(t, 1, r.NodeKills)
			require.Equal(t, 1, r.PostgresKills)
			require.Positive(t, r.Answered)
			require.Positive(t, r.Repeated, "nobody noticed the kills")
			require.Positive(t, r.Sends)
		})
	}
}
