package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/eventstore"
	"ledgerline/test/app"
)

// proven checks a proof with docs/verify_proof.py, and with eventstore. Both must agree. with is the public key and the
// text of the published heads, if there are any.
func proven(t *testing.T, proof []byte, with ...string) bool {
	t.Helper()
	var ours eventstore.Proof
	require.NoError(t, json.Unmarshal(proof, &ours))
	var options eventstore.CheckOptions
	args := []string{"../../docs/verify_proof.py", filepath.Join(t.TempDir(), "proof.json")}
	require.NoError(t, os.WriteFile(args[1], proof, 0o600))
	var unreadable error
	if len(with) > 0 {
		options.Key = with[0]
		args = append(args, with[0])
	}
	if len(with) > 1 {
		options.Heads, unreadable = eventstore.ReadHeads(with[1], with[0])
		args = append(args, filepath.Join(t.TempDir(), "heads.txt"))
		require.NoError(t, os.WriteFile(args[3], []byte(with[1]), 0o600))
	}
	wrong := ours.Check(options)
	if unreadable != nil {
		wrong = append(wrong, unreadable.Error())
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return len(wrong) == 0
	}
	out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput()
	if err == nil {
		require.Empty(t, wrong, "the script says: %s", out)
	}
	return err == nil
}

func TestConsentProofOfANumberVerifiesOutsideTheService(t *testing.T) {
	t.Parallel()
	onShards(t, func(t *testing.T, shards app.Option) {
		a := app.Start(t, shards)
		phone := a.Phone()
		id := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "consent_status": "opted_in", "consent_source": "form"}).Is(201).Text("id")
		a.Inbound(phone, a.Lines[0].Phone, "Stop!")
		a.Settle()
		a.Live.Delete("/v1/contacts/" + id).Is(200)
		again := a.Live.Post("/v1/contacts", app.Map{"phone": phone, "consent_status": "opted_in", "consent_source": "form"}).Is(201)
		require.Equal(t, "opted_out", again.Text("consent_status"))
		answer := a.Sessions["manager"].Get("/v1/compliance/proof?phone=" + strings.Replace(phone, "+", "%2B", 1)).Is(200)
		shows(t, answer.JSON(), app.Map{"phone": phone, "opted_out": true, "format": "ledgerline proof 2"})
		consent, _ := answer.At("consent").([]any)
		var moves []string
		for _, one := range consent {
			moves = append(moves, text(object(one), "from_status")+">"+text(object(one), "to_status"))
			require.NotNil(t, object(one)["hash"], "the open block was closed")
		}
		require.Equal(t, []string{"unknown>opted_in", "opted_in>opted_out", "unknown>opted_out"}, moves)
		require.Nil(t, object(consent[1])["text"], "erased")
		require.Equal(t, "stop", object(consent[1])["keyword"])
		require.True(t, proven(t, answer.Raw))
		key, head := answer.Text("public_key"), answer.Text("head")
		require.True(t, proven(t, answer.Raw, key, head))
		_, stranger, err := eventstore.NewKeyring()
		require.NoError(t, err)
		other, err := eventstore.ParseKeyring(stranger)
		require.NoError(t, err)
		require.False(t, proven(t, answer.Raw, other.HeadKey()), "another installation's key")
		require.False(t, proven(t, answer.Raw, key, strings.Replace(head, "position ", "position 1", 1)), "a forged published head")

		a.Live.Post("/v1/labels", app.Map{"name": "later"}).Is(201)
		query := "/v1/compliance/proof?phone=" + strings.Replace(phone, "+", "%2B", 1)
		later := a.Live.Get(query).Is(200)
		require.NotEqual(t, head, later.Text("head"))
		require.False(t, proven(t, later.Raw, key, head), "nothing in the proof shows that it extends the older head")
		size := strings.Split(head, "\n")[1]
		later = a.Live.Get(query + "&head_size=" + size).Is(200)
		require.True(t, proven(t, later.Raw, key, head))
		extension, _ := object(later.At("extends"))["path"].([]any)
		require.NotEmpty(t, extension)
		step, _ := extension[0].(string)
		require.False(t, proven(t, bytes.Replace(later.Raw, []byte(step), []byte(strings.Repeat("A", 43)+"="), 1), key, head))
		a.Live.Get(query+"&head_size=1000000").Refused(400, "validation_failed", "query /head_size invalid_value")
		a.Live.Get(query+"&head_size=x").Refused(400, "validation_failed", "query /head_size invalid_type")

		tampered := 0
		for _, change := range [][2]string{
			{`\"to\":\"opted_out\"`, `\"to\":\"opted_in\"`}, {`"stream`, `"Stream`}, {`"opted_out":true`, `"opted_out":false`},
			{`"to_status":"opted_out"`, `"to_status":"opted_in"`}, {`"contact.opted_out"`, `"contact.opted_in"`},
			{`"number":1,`, `"number":2,`}, {`"number":`, `"number":9`},
		} {
			forged := bytes.Replace(answer.Raw, []byte(change[0]), []byte(change[1]), 1)
			if bytes.Equal(forged, answer.Raw) {
				continue
			}
			tampered++
			if python, _ := exec.LookPath("python3"); python != "" {
				require.False(t, proven(t, forged), change[0])
			}
		}
		require.Greater(t, tampered, 3)

		unknown := a.Live.Get("/v1/compliance/proof?phone=%2B14155552671").Is(200)
		require.Empty(t, unknown.At("entries"))
		require.False(t, proven(t, unknown.Raw), "nothing can be proven of a number that was never seen")
		a.Live.Get("/v1/compliance/proof").Refused(400, "validation_failed", "query /phone required")
		a.Live.Get("/v1/compliance/proof?phone=12").Refused(400, "validation_failed", "query /phone invalid_phone")
		a.Sessions["agent"].Get("/v1/compliance/proof?phone=%2B14155552671").Refused(403, "forbidden")
	})
}

func TestProofWithAMissingEventDoesNotVerify(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	id := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	for _, status := range []string{"opted_in", "opted_out", "opted_in"} {
		a.Live.Post("/v1/contacts/"+id+"/consent", app.Map{"status": status, "source": "call"}).Is(200)
	}
	answer := a.Live.Get("/v1/compliance/proof?phone=" + strings.Replace(phone, "+", "%2B", 1)).Is(200)
	var whole eventstore.Proof
	require.NoError(t, json.Unmarshal(answer.Raw, &whole))
	require.Empty(t, whole.Check(eventstore.CheckOptions{}))
	for i := range whole.Entries {
		part := whole
		part.Entries = append(append([]eventstore.ProofEntry(nil), whole.Entries[:i]...), whole.Entries[i+1:]...)
		require.NotEmpty(t, part.Check(eventstore.CheckOptions{}), "entry %d", i)
	}
	for i := range whole.Blocks {
		part := whole
		part.Blocks = append(append([]eventstore.ProofBlock(nil), whole.Blocks[:i]...), whole.Blocks[i+1:]...)
		require.NotEmpty(t, part.Check(eventstore.CheckOptions{}), "block %d", i)
	}
	for i := range whole.Entries {
		for column := range whole.Entries[i].Leaf {
			var part eventstore.Proof
			require.NoError(t, json.Unmarshal(answer.Raw, &part))
			changed := "x"
			part.Entries[i].Leaf[column] = &changed
			require.NotEmpty(t, part.Check(eventstore.CheckOptions{}), "entry %d, column %d", i, column)
		}
	}
}

func TestExportedConsentTrailEqualsTheList(t *testing.T) {
	t.Parallel()
	a := app.Start(t)
	phone := a.Phone()
	id := a.Live.Post("/v1/contacts", app.Map{"phone": phone}).Is(201).Text("id")
	a.Live.Post("/v1/contacts/"+id+"/consent", app.Map{"status": "opted_in", "source": "=cmd()"}).Is(200)
	a.Live.Post("/v1/contacts/"+id+"/opt-out", app.Map{"source": "call", "keyword": "stop"}).Is(200)
	file := a.Live.Get("/v1/compliance/consent-events/export?contact_id=" + id).Is(200)
	require.Contains(t, file.Header.Get("content-type"), "text/csv")
	lines := strings.Split(strings.TrimSpace(string(file.Raw)), "\r\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[1], "opted_in,opted_out")
	require.Contains(t, lines[2], "'=cmd()")
	only := a.Live.Get("/v1/compliance/consent-events/export?type=opted_in").Is(200)
	require.Equal(t, 2, strings.Count(string(only.Raw), "\r\n"))
	a.Live.Get("/v1/compliance/consent-events/export?phone=12").Refused(400, "validation_failed", "query /phone invalid_phone")
	a.Sessions["agent"].Get("/v1/compliance/consent-events/export").Refused(403, "forbidden")
}
