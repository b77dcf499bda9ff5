package segment_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/segment"
)

var (
	now  = time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)
	vip  = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	gold = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
)

func read(t *testing.T, definition string) (*segment.Node, error) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(definition), &value))
	node, err := segment.Parse(value, "/definition")
	if err != nil {
		return nil, err
	}
	err = node.BindLabels(func(name string) (uuid.UUID, bool) {
		id, found := map[string]uuid.UUID{"vip": vip, "gold": gold}[segment.Fold(name)]
		return id, found
	})
	return node, err
}

func ptr[T any](v T) *T { return &v }

func someone() *segment.Contact {
	return &segment.Contact{
		Phone: "+14155550123", FirstName: ptr("Zoë"), Company: ptr("100% Acme_Co\\"), ConsentStatus: "opted_in", LabelIDs: []uuid.UUID{vip},
		CreatedAt: ptr(now.Add(-48 * time.Hour)), LastInboundAt: ptr(now.Add(-7 * 24 * time.Hour)), ChatCapable: ptr(false),
		Fields: map[string]any{
			"plan": "Gold", "seats": 12.0, "trial": false, "none": nil, "tags": []any{"A", 5.0, true, nil, []any{"deep"}}, "born": "1990-05-01",
			"seen": "2026-03-02T12:00:00-05:00", "12": "12", "nested": map[string]any{"a": "b"}, "empty": "",
		},
	}
}

func TestEveryFieldAndOperationSelectsAsDefined(t *testing.T) {
	t.Parallel()
	for definition, want := range map[string]bool{
		`{"field":"first_name","op":"eq","value":"ZOË"}`:            true,
		`{"field":"first_name","op":"ne","value":"zoe"}`:            true,
		`{"field":"last_name","op":"ne","value":"x"}`:               false, // missing
		`{"field":"last_name","op":"not_contains","value":"x"}`:     false,
		`{"not":{"field":"last_name","op":"eq","value":"x"}}`:       true,
		`{"field":"last_name","op":"exists","value":false}`:         true,
		`{"field":"first_name","op":"exists","value":false}`:        false,
		`{"field":"company","op":"contains","value":"0% acme_c"}`:   true,
		`{"field":"company","op":"contains","value":"0_ acme"}`:     false,
		`{"field":"company","op":"starts_with","value":"100%"}`:     true,
		`{"field":"company","op":"contains","value":"\\"}`:          true,
		`{"field":"phone","op":"eq","value":"(415) 555-0123"}`:      true,
		`{"field":"phone","op":"starts_with","value":"+1415"}`:      true,
		`{"field":"consent_status","op":"in","value":["opted_in"]}`: true,
		`{"field":"owner_user_id","op":"exists","value":true}`:      false,
		`{"field":"chat_capable","op":"eq","value":false}`:          true,
		`{"field":"chat_capable","op":"ne","value":false}`:          false,

		`{"field":"labels","op":"contains","value":"VIP"}`:                        true,
		`{"field":"labels","op":"not_contains","value":"gold"}`:                   true,
		`{"field":"labels","op":"in","value":["gold","vip"]}`:                     true,
		`{"field":"labels","op":"in","value":["gold"]}`:                           false,
		`{"field":"created_at","op":"within_days","value":2}`:                     true,
		`{"field":"created_at","op":"within_days","value":1}`:                     false,
		`{"field":"last_inbound_at","op":"within_days","value":7}`:                true,
		`{"field":"last_outbound_at","op":"within_days","value":7}`:               false,
		`{"field":"created_at","op":"before","value":"2026-02-28T17:00:00Z"}`:     false,
		`{"field":"created_at","op":"before","value":"2026-02-28T17:00:00.001Z"}`: true,
		`{"field":"created_at","op":"after","value":"2026-02-28T17:00:00Z"}`:      false,
		`{"field":"created_at","op":"after","value":"2026-02-28"}`:                true,
		`{"field":"fields.plan","op":"eq","value":"gold"}`:                        true,
		`{"field":"fields.plan","op":"in","value":["x",12,"GOLD"]}`:               true,
		`{"field":"fields.seats","op":"eq","value":12}`:                           true,
		`{"field":"fields.seats","op":"eq","value":"12"}`:                         false,
		`{"field":"fields.12","op":"eq","value":12}`:                              false,
		`{"field":"fields.12","op":"gt","value":1}`:                               false,
		`{"field":"fields.seats","op":"gt","value":11.5}`:                         true,
		`{"field":"fields.seats","op":"lt","value":12}`:                           false,
		`{"field":"fields.trial","op":"eq","value":false}`:                        true,
		`{"field":"fields.none","op":"exists","value":true}`:                      false,
		`{"field":"fields.none","op":"ne","value":1}`:                             false,
		`{"field":"fields.empty","op":"eq","value":""}`:                           true,
		`{"field":"fields.tags","op":"contains","value":"a"}`:                     true,
		`{"field":"fields.tags","op":"contains","value":5}`:                       true,
		`{"field":"fields.tags","op":"contains","value":"deep"}`:                  false,
		`{"field":"fields.tags","op":"not_contains","value":"b"}`:                 true,
		`{"field":"fields.tags","op":"eq","value":"a"}`:                           false,
		`{"field":"fields.tags","op":"ne","value":"a"}`:                           true,
		`{"field":"fields.nested","op":"ne","value":"b"}`:                         true,
		`{"field":"fields.seats","op":"contains","value":"1"}`:                    false,
		`{"field":"fields.seats","op":"not_contains","value":"1"}`:                true,
		`{"field":"fields.born","op":"before","value":"1990-05-02"}`:              true,
		`{"field":"fields.seen","op":"within_days","value":1}`:                    true,
		`{"field":"fields.plan","op":"before","value":"2030-01-01"}`:              false,
		`{"field":"fields.other","op":"exists","value":false}`:                    true,
		`{"all":[{"field":"email","op":"exists","value":false},{"any":[{"not":{"field":"fields.plan","op":"eq","value":"gold"}},{"field":"phone","op":"contains","value":"0123"}]}]}`: true,
	} {
		node, err := read(t, definition)
		require.NoError(t, err, definition)
		require.Equal(t, want, node.Matches(someone(), now), definition)
	}
	nobody := &segment.Contact{Phone: "+1", ConsentStatus: "unknown"}
	for definition, want := range map[string]bool{
		`{"field":"labels","op":"not_contains","value":"vip"}`: false, // no labels are missing labels
		`{"field":"labels","op":"exists","value":false}`:       true,
		`{"field":"fields.a","op":"not_contains","value":"x"}`: false,
	} {
		node, err := read(t, definition)
		require.NoError(t, err)
		require.Equal(t, want, node.Matches(nobody, now), definition)
	}
}

func nested(depth int) string {
	return strings.Repeat(`{"not":`, depth-1) + `{"field":"email","op":"exists","value":true}` + strings.Repeat(`}`, depth-1)
}

func many(n int) string {
	return `{"any":[` + strings.TrimSuffix(strings.Repeat(`{"field":"email","op":"exists","value":true},`, n), ",") + `]}`
}

func TestDefinitionIsBoundedInDepthConditionsAndSize(t *testing.T) {
	t.Parallel()
	for _, good := range []string{nested(5), many(50)} {
		_, err := read(t, good)
		require.NoError(t, err)
	}
	for bad, want := range map[string]string{
		nested(6): "/definition/not/not/not/not/not too_deep",
		many(51):  "/definition too_many_items",
		many(5e2): "/definition too_many_items",
		`{"field":"email","op":"in","value":[` + strings.Repeat(`"x",`, 100) + `"x"]}`: "/definition/value too_many_items",
		`{"field":"email","op":"eq","value":"` + strings.Repeat("x", 1001) + `"}`:      "/definition/value too_long",
		many(2e3): "/definition too_long",
	} {
		_, err := read(t, bad)
		require.Equal(t, []string{want}, issues(err))
	}
}

func issues(err error) (list []string) {
	if f := fault.Of(err); f != nil {
		for _, i := range f.Issues {
			list = append(list, fmt.Sprintf("%s %s", i.Path, i.Code))
		}
	}
	return list
}

func TestEveryBadNodeIsReportedAtItsPointer(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string][]string{
		`[]`:                            {"/definition invalid_type"},
		`{}`:                            {"/definition/field required"},
		`{"all":{}}`:                    {"/definition/all invalid_type"},
		`{"any":[]}`:                    {"/definition/any required"},
		`{"all":[1,{"not":2}],"x/y":1}`: {"/definition/x~1y unknown_property", "/definition/all/0 invalid_type", "/definition/all/1/not invalid_type"},
		`{"all":[],"any":[]}`:           {"/definition/any unknown_property", "/definition/all required"},
		`{"field":"fields.","op":"eq"}`: {"/definition/field invalid_value"},
		`{"field":"email"}`:             {"/definition/op required"},
		`{"field":"email","op":"eq"}`:   {"/definition/value required"},
		`{"field":"email","op":"within_days","value":1}`:           {"/definition/op unknown_op"},
		`{"field":"labels","op":"eq","value":"vip"}`:               {"/definition/op unknown_op"},
		`{"field":"labels","op":"contains","value":"nope"}`:        {"/definition/value unknown_label"},
		`{"field":"email","op":"exists","value":"yes"}`:            {"/definition/value invalid_type"},
		`{"field":"email","op":"in","value":["a",5]}`:              {"/definition/value/1 invalid_value"},
		`{"field":"consent_status","op":"eq","value":"maybe"}`:     {"/definition/value invalid_value"},
		`{"field":"owner_user_id","op":"eq","value":"me"}`:         {"/definition/value invalid_value"},
		`{"field":"assigned_line_id","op":"in","value":["x"]}`:     {"/definition/value/0 invalid_value"},
		`{"field":"created_at","op":"within_days","value":1.5}`:    {"/definition/value invalid_value"},
		`{"field":"created_at","op":"within_days","value":0}`:      {"/definition/value invalid_value"},
		`{"field":"created_at","op":"after","value":"2026-02-30"}`: {"/definition/value invalid_value"},
		`{"field":"fields.a","op":"gt","value":"5"}`:               {"/definition/value invalid_value"},
		`{"field":"fields.a","op":"eq","value":{"a":1}}`:           {"/definition/value invalid_value"},
	} {
		_, err := read(t, bad)
		require.Equal(t, want, issues(err), bad)
	}
}

func TestDefinitionShowsTheCurrentNamesOfLabels(t *testing.T) {
	t.Parallel()
	var given any
	require.NoError(t, json.Unmarshal([]byte(`{"all":[{"not":{"field":"labels","op":"in","value":["vip","gold"]}},{"field":"email","op":"eq","value":"vip"}]}`), &given))
	before, err := json.Marshal(given)
	require.NoError(t, err)
	shown, err := json.Marshal(segment.RenameLabels(given, strings.ToUpper))
	require.NoError(t, err)
	require.JSONEq(t, `{"all":[{"not":{"field":"labels","op":"in","value":["VIP","GOLD"]}},{"field":"email","op":"eq","value":"vip"}]}`, string(shown))
	after, err := json.Marshal(given)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

func TestOnlyConditionsOfWorkflowsCompareTheTextOfAMessage(t *testing.T) {
	t.Parallel()
	definition := map[string]any{"field": "message.body", "op": "contains", "value": "Order"}
	_, err := segment.Parse(definition, "/definition")
	require.True(t, fault.Is(err, fault.ValidationFailed))
	node, err := segment.ParseCondition(definition, "/definition")
	require.NoError(t, err)
	require.True(t, node.Matches(&segment.Contact{MessageBody: ptr("my order")}, now))
	require.False(t, node.Matches(&segment.Contact{}, now))
}
