package phone_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
)

func TestNumbersInUsualNotationsAreParsed(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"+14155552671":     "+14155552671",
		"(415) 555-2671":   "+14155552671",
		"415.555.2671":     "+14155552671",
		"1 415 555 2671":   "+14155552671",
		" +14155552671 ":   "+14155552671",
		"+44 20 7946 0018": "+442079460018",
		"604-555-2671":     "+16045552671", // Canada
		// Sandbox numbers, in area codes that exist and that do not.
		"+14155550100":   "+14155550100",
		"+10005550199":   "+10005550199",
		"(999) 555-0142": "+19995550142",
		"000-555-0100":   "+10005550100",
		"1-123-555-0101": "+11235550101",
	} {
		got, err := phone.Parse(input, "/phone")
		require.NoError(t, err, input)
		require.Equal(t, want, got, input)
	}
}

func TestInvalidNumberIsRefusedAtItsPointer(t *testing.T) {
	t.Parallel()
	for _, input := range []string{
		"", " ", "12", "abc", "+1", "555-0100", "+19995551100", "+1415555267", "+141555526711", "1-800-FLOWERS",
		"415-555-2671 ext 5", "tel:+14155552671", "+14155552671;ext=5", "+00000000000", "\x00", "+", "+2 4155550100",
	} {
		_, err := phone.Parse(input, "/to")
		require.True(t, fault.Is(err, fault.ValidationFailed), input)
		issue := fault.Of(err).Issues[0]
		require.Equal(t, []string{"body", "/to", "invalid_phone"}, []string{issue.Location, issue.Path, issue.Code})
	}
}

func TestSandboxNumbersAreRecognisedByTheirPattern(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]bool{
		"+14155550100": true, "+10005550199": true, "+14155550200": false, "+14155551100": false, "14155550100": false,
		"+141555501000": false, "+24155550100": false, "+14155550100\n": false,
	} {
		require.Equal(t, want, phone.IsSandbox(number), number)
	}
}

func FuzzParsedNumberParsesToItself(f *testing.F) {
	for _, seed := range []string{"+14155552671", "(000) 555-0100", "415-555-2671", "+44 20 7946 0018", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		once, ok := phone.Read(input)
		if !ok {
			return
		}
		twice, ok := phone.Read(once)
		require.True(t, ok)
		require.Equal(t, once, twice)
		require.Regexp(t, `^\+[0-9]{5,15}$`, once)
	})
}
