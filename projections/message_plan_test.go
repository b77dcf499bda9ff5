package projections

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// manyMessagesSQL inserts 60,000 messages of 2026, one each minute, to the contacts of crowdedBookSQL in turn.
const manyMessagesSQL = `insert into read.messages (id, workspace_id, conversation_id, contact_id, direction, channel, status, body, sender, recipient, is_test,
		media, metadata, sent_by_staff, created_at, updated_at)
	select 'msg_' || n, person(1), 'cnv_' || c, 'ctc_' || c, 'outbound', 'chat', 'sent', 'x', '+12125550201', '+1415' || lpad(c::text, 7, '0'), false,
		'[]', '{}', false, '2026-01-01T00:00:00Z'::timestamptz + n * '1 minute'::interval, now()
	from (select n, 1 + n % 40000 as c from generate_series(1, 60000) n) numbered`

func TestMessageListByNumberAndDateReadsFewRows(t *testing.T) {
	t.Parallel()
	store, pool := crowdedBook(t)
	for _, sql := range []string{manyMessagesSQL, "analyze"} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	from, to := time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 9, 0, 30, 0, 0, time.UTC)
	for name, by := range map[string]MessageFilter{
		"to":        {To: "+14150000007"},
		"from":      {From: "+14150000007"},
		"a day":     {CreatedAfter: &from, CreatedBefore: &to},
		"before":    {CreatedBefore: &from},
		"to, a day": {To: "+14150000007", CreatedAfter: &from},
		"nobody's":  {To: "+14159999999"},
		"all":       {},
	} {
		sql, args, err := store.messagesSQL(t.Context(), Viewer{Workspace: uuid.UUID{15: 1}}, &by, nil, 50)
		require.NoError(t, err)
		var text []byte
		require.NoError(t, pool.QueryRow(t.Context(), "explain (analyze, format json) "+sql, args...).Scan(&text))
		var plans []struct{ Plan node }
		require.NoError(t, json.Unmarshal(text, &plans))
		require.LessOrEqual(t, plans[0].Plan.read(t, name), 60.0, name)
	}
}
