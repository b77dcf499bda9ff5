package house_test

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCommentsAreWrapped(t *testing.T) {
	t.Parallel()
	for _, file := range repositoryFiles(t, ".go") {
		set := token.NewFileSet()
		source := text(t, file)
		tree, err := parser.ParseFile(set, file, source, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		lines := strings.Split(source, "\n")
		for _, group := range tree.Comments {
			for _, comment := range group.List {
				at := set.Position(comment.Pos())
				line := lines[at.Line-1]
				fullLine := strings.TrimSpace(line[:at.Column-1]) == ""
				directive := strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "//nolint")
				if width := utf8.RuneCountInString(line); fullLine && !directive && width > maxColumns {
					t.Errorf("%s:%d: the comment has %d columns, wrap it at %d", file, at.Line, width, maxColumns)
				}
			}
		}
	}
}
