package eventstore_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/clock"
	"ledgerline/eventstore"
)

func TestKeyringOfAnotherInstallationIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestLedger(t, 1)
	_, own, err := eventstore.NewKeyring()
	require.NoError(t, err)
	_, other, err := eventstore.NewKeyring()
	require.NoError(t, err)
	mixed := func(keyset, root []byte) *eventstore.Keyring {
		var a, b map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(keyset, &a))
		require.NoError(t, json.Unmarshal(root, &b))
		a["root"] = b["root"]
		text, err := json.Marshal(a)
		require.NoError(t, err)
		k, err := eventstore.ParseKeyring(text)
		require.NoError(t, err)
		return k
	}
	open := func(k *eventstore.Keyring) error {
		l, err := eventstore.Open(t.Context(), eventstore.Config{Pool: h.pool, Keyring: k, Clock: clock.System()})
		if err == nil {
			l.Close()
		}
		return err
	}
	// The harness has opened the database with its own keyring; begin again with one whose text is known.
	for _, sql := range []string{`delete from ledger_meta`, `delete from ledger_keys`} {
		_, err := h.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	used, err := eventstore.IsUsed(t.Context(), h.pool)
	require.NoError(t, err)
	require.False(t, used)
	require.NoError(t, open(mixed(own, own)))
	require.NoError(t, open(mixed(own, own)))
	used, err = eventstore.IsUsed(t.Context(), h.pool)
	require.NoError(t, err)
	require.True(t, used)
	for _, foreign := range []*eventstore.Keyring{mixed(own, other), mixed(other, own), mixed(other, other)} {
		require.ErrorIs(t, open(foreign), eventstore.ErrForeignKeyring)
	}
}

func TestKeysFileThatOthersCanUseIsRefused(t *testing.T) {
	t.Parallel()
	_, text, err := eventstore.NewKeyring()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	for mode, may := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o700: false, 0o666: false} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := eventstore.OpenKeyring(path)
		if may {
			require.NoError(t, err, mode)
		} else {
			require.ErrorContains(t, err, "chmod 600 "+path, mode)
		}
	}
	_, err = eventstore.OpenKeyring(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
