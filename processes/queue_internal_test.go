package processes

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ledgerline/commands/sending"
	"ledgerline/test/testpg"
)

func TestWhoJoinsAQueueIsNoticedByWhoeverFindsItEmptyJustThen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, testpg.Database(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	noon := time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	_, err = conn.Exec(ctx, askReleaseSQL, "queue", 0, noon, 100)
	require.NoError(t, err)
	var taken struct {
		fence, asked int64
		due          time.Time
	}
	err = conn.QueryRow(ctx, `select fence, scheduled_at_position, due_at from scheduled_tasks_lease($1, $2, 1, '1 minute')`, releaseProcess, noon).
		Scan(&taken.fence, &taken.asked, &taken.due)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, askReleaseSQL, "queue", 0, noon.Add(time.Hour), 50) // an event that is older than those it is asked by
	require.NoError(t, err)
	_, err = conn.Exec(ctx, `select scheduled_tasks_end($1, $2, $3, $4, $5, $6, $7, $8, $9)`, releaseProcess, []string{"queue"}, []int64{taken.fence}, []int64{taken.asked}, []time.Time{taken.due},
		[]bool{true}, []*time.Time{nil}, []int{0}, []*time.Duration{nil})
	require.NoError(t, err)
	var left int
	require.NoError(t, conn.QueryRow(ctx, `select count(*) from scheduled_tasks where process = $1 and due_at <= $2`, releaseProcess, noon).Scan(&left))
	require.Equal(t, 1, left)
}

func TestTheKeyOfAQueueTellsWhichItIs(t *testing.T) {
	t.Parallel()
	q := sending.Queue{Organisation: uuid.New(), Workspace: uuid.New(), Group: "pool_1"}
	theirs, alike := q, q
	theirs.Sender, theirs.Taken, alike.Text, alike.New = uuid.NewString(), true, "af01", true
	for _, one := range []sending.Queue{q, theirs, alike} {
		again, err := queueNamed(queueKey(&one))
		require.NoError(t, err)
		require.Equal(t, one, again)
	}
	for _, key := range []string{"", "a/b/c/d", queueKey(&alike) + "/x"} {
		_, err := queueNamed(key)
		require.Error(t, err, key)
	}
}
