package house_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const referenceDir = "docs/reference"

// rulePages says which page of docs/reference defines the rules with a prefix.
var rulePages = map[string]string{
	"API": "api.md", "ACC": "access.md", "CON": "contacts.md", "INB": "conversations.md",
	"SND": "sending.md", "LIN": "lines.md", "WHK": "webhooks.md", "LED": "ledger.md", "WFL": "workflows.md",
}

var (
	ruleDefinition = regexp.MustCompile(`(?m)^\*\*([A-Z]{3})-(\d+)\*\*`)
	ruleCitation   = regexp.MustCompile(`\b(?:API|ACC|CON|INB|SND|LIN|WHK|LED|WFL)-\d+\b`)
	markdownLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan       = regexp.MustCompile("`([^`\n]+)`")
	qualifiedName  = regexp.MustCompile(`^[a-z][a-z0-9]*(\.[A-Z][A-Za-z0-9]*)+$`)
	pathLike       = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?$`)
)

// repositoryFiles lists the files below the root whose name ends with one of the suffixes. It skips build results and
// data.
func repositoryFiles(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && (slices.Contains([]string{"bin", "dist"}, path) || strings.HasPrefix(entry.Name(), ".") && path != ".ci") {
				return fs.SkipDir
			}
			return nil
		}
		if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			found = append(found, filepath.ToSlash(path))
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(content)
}

// definedRules gives the rules of docs/reference, and reports those that are out of order or on the wrong page.
func definedRules(t *testing.T) map[string]bool {
	t.Helper()
	defined := map[string]bool{}
	for prefix, page := range rulePages {
		last := 0
		for _, match := range ruleDefinition.FindAllStringSubmatch(text(t, referenceDir+"/"+page), -1) {
			number, err := strconv.Atoi(match[2])
			require.NoError(t, err)
			if match[1] != prefix {
				t.Errorf("%s defines %s-%d, but its rules are %s-n", page, match[1], number, prefix)
			}
			if number <= last {
				t.Errorf("%s: %s-%d stands after %s-%d", page, match[1], number, prefix, last)
			}
			last = number
			defined[fmt.Sprintf("%s-%d", match[1], number)] = true
		}
	}
	return defined
}

func TestEveryRuleThatIsCitedExists(t *testing.T) {
	t.Parallel()
	defined := definedRules(t)
	require.NotEmpty(t, defined)
	for _, file := range repositoryFiles(t, ".go", ".sql", ".md", ".py", ".yml", ".yaml") {
		for number, line := range strings.Split(text(t, file), "\n") {
			for _, rule := range ruleCitation.FindAllString(line, -1) {
				if !defined[rule] {
					t.Errorf("%s:%d cites rule %s, which docs/reference does not have", file, number+1, rule)
				}
			}
		}
	}
}

// documents are the files written for people.
func documents(t *testing.T) []string {
	t.Helper()
	return repositoryFiles(t, ".md")
}

func TestFilesAndIdentifiersThatDocumentsNameExist(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range repositoryFiles(t, ".go") {
		code.WriteString(text(t, file))
	}
	identifiers := map[string]bool{}
	for _, name := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`).FindAllString(code.String(), -1) {
		identifiers[name] = true
	}
	for _, file := range documents(t) {
		inFence := false
		for number, line := range strings.Split(text(t, file), "\n") {
			if strings.HasPrefix(line, "```") {
				inFence = !inFence
				continue
			}
			if inFence {
				continue
			}
			for _, match := range markdownLink.FindAllStringSubmatch(line, -1) {
				if problem := brokenLink(file, match[1]); problem != "" {
					t.Errorf("%s:%d: %s", file, number+1, problem)
				}
			}
			for _, match := range codeSpan.FindAllStringSubmatch(line, -1) {
				if path := match[1]; isRepositoryPath(path) && !exists(path) {
					t.Errorf("%s:%d: there is no %s", file, number+1, path)
				}
				for name := range strings.SplitSeq(match[1], ".") {
					if qualifiedName.MatchString(match[1]) && !identifiers[name] {
						t.Errorf("%s:%d: no code has the name %s of %s", file, number+1, name, match[1])
					}
				}
			}
		}
	}
}

// brokenLink says what is wrong with a relative link; "" when nothing is, or when it leads elsewhere.
func brokenLink(file, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	path, anchor, _ := strings.Cut(link, "#")
	target := file
	if path != "" {
		target = filepath.Join(filepath.Dir(file), path)
	}
	if !exists(target) {
		return "the link to " + link + " leads nowhere"
	}
	if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(target), anchor) {
		return "there is no heading for the link to " + link
	}
	return ""
}

// anchors are the fragments under which the headings of a document are reached.
func anchors(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.SplitSeq(string(content), "\n") {
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		found = append(found, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > utf8.RuneSelf:
				return r
			}
			return -1
		}, strings.ToLower(heading)))
	}
	return found
}

// isRepositoryPath tells whether a code span names a file or a folder of the repository: its first part is one.
func isRepositoryPath(span string) bool {
	if !pathLike.MatchString(span) {
		return false
	}
	first, _, _ := strings.Cut(span, "/")
	return first != "bin" && !strings.HasPrefix(first, ".") && exists(first)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// maxColumns is where lines of documents are wrapped. Tables and code may be wider.
const maxColumns = 120

func TestDocumentsWrapTheirLines(t *testing.T) {
	t.Parallel()
	for _, file := range documents(t) {
		inFence := false
		for number, line := range strings.Split(text(t, file), "\n") {
			if strings.HasPrefix(line, "```") {
				inFence = !inFence
			}
			if inFence || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") {
				continue
			}
			if columns := utf8.RuneCountInString(line); columns > maxColumns {
				t.Errorf("%s:%d has %d columns", file, number+1, columns)
			}
		}
	}
}

func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	const page = "docs/architecture.md"
	named := map[string]bool{}
	for _, match := range codeSpan.FindAllStringSubmatch(text(t, page), -1) {
		named[match[1]] = true
	}
	for _, p := range packages(t) {
		name := p.name()
		first, _, _ := strings.Cut(name, "/")
		if !named[name] && first != "domain" && first != "test" {
			t.Errorf("%s does not name the package %s", page, name)
		}
	}
}

// privateCitation finds comments that cite documents which are not in the repository.
var privateCitation = regexp.MustCompile(`(?i)\b(interface|administration),? (section )?\d|\bdecisions,? (section )?\d`)

func TestCitedDocumentsAreInTheRepository(t *testing.T) {
	t.Parallel()
	for _, file := range repositoryFiles(t, ".go", ".sql", ".md", ".py", ".yml", ".yaml") {
		for number, line := range strings.Split(text(t, file), "\n") {
			if found := privateCitation.FindString(line); found != "" {
				t.Errorf("%s:%d cites %q: cite a rule of docs/reference, or state it in place", file, number+1, found)
			}
		}
	}
}
