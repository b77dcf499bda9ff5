package label

import "strings"

var cellEscaper = strings.NewReplacer(`\`, `\\`, `;`, `\;`)

// Join writes names into one cell of a file, with semicolons between them. A semicolon or a backslash within a name gets a
// backslash in front, so that Split gives the same names back.
func Join(names []string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = cellEscaper.Replace(name)
	}
	return strings.Join(escaped, ";")
}

// Split reads the names of one cell, as Join or a person wrote them (decisions, section 9). Spaces around names and empty
// names are left out; a backslash in front of anything else is part of the name.
func Split(cell string) []string {
	var names []string
	var name strings.Builder
	end := func() {
		if n := Clean(name.String()); n != "" {
			names = append(names, n)
		}
		name.Reset()
	}
	for i := 0; i < len(cell); i++ {
		switch c := cell[i]; {
		case c == '\\' && i+1 < len(cell) && (cell[i+1] == '\\' || cell[i+1] == ';'):
			i++
			name.WriteByte(cell[i])
		case c == ';':
			end()
		default:
			name.WriteByte(c)
		}
	}
	end()
	return names
}
