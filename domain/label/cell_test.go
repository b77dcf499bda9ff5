package label_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ledgerline/domain/label"
)

func TestCellOfLabelsIsSplitAtSemicolons(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string][]string{
		"":                 nil,
		" ; ;":             nil,
		"vip":              {"vip"},
		"vip; New York ;x": {"vip", "New York", "x"},
		`a\;b;c`:           {"a;b", "c"},
		`a\\;b`:            {`a\`, "b"},
		`c:\temp;d\`:       {`c:\temp`, `d\`},
	} {
		require.Equal(t, want, label.Split(cell), "%q", cell)
	}
}

func FuzzJoinedLabelsSplitIntoTheSameNames(f *testing.F) {
	f.Add("a;b", `c\`, `\;`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		names := []string{a, b, c}
		for i := range names {
			names[i] = label.Clean(names[i])
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
		require.ElementsMatch(t, names, label.Split(label.Join(names)))
	})
}
