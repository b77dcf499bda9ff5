package label

import "strings"

var cellEscaper = strings.NewReplacer(`\`, `\\`, `;`, `\;`)

// Join writes names into one cell of a CSV file, separated by semicolons (rule CON-42). A semicolon or backslash
// within a name is escaped with a backslash, so that Split returns the same names.
func Join(names []string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = cellEscaper.Replace(name)
	}
	return strings.Join(escaped, ";")
}

// Split reads the names of one cell as Join or a person wrote it. It drops spaces around names and empty names. A
// backslash in front of anything but a semicolon or backslash is part of the name.
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
