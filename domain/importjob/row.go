package importjob

import (
	"fmt"
	"net/mail"
	"strings"
	"unicode/utf8"

	"ledgerline/domain/consent"
	"ledgerline/domain/contact"
	"ledgerline/domain/fault"
	"ledgerline/domain/label"
	"ledgerline/domain/phone"
)

const (
	maxEmail = 254
	maxName  = 100
	maxLine  = 200 // of a company
)

// Row is what one row says of a contact. An empty cell says nothing: it empties nothing that is there.
type Row struct {
	Number    int    // as a spreadsheet shows it
	Phone     string // E.164
	FirstName *string
	LastName  *string
	Company   *string
	Email     *string
	Fields    map[string]any // texts
	Labels    []string
	Consent   consent.Status // "" when nothing is said
	// Problem says why the row cannot be imported, without quoting it; then nothing else is set.
	Problem string
}

// Read understands a row. width is how many cells it really has.
func (m Mapping) Read(number int, cells []string, width int) Row {
	if width != m.width {
		return Row{Number: number, Problem: fmt.Sprintf("The row has %d cells, the header has %d.", width, m.width)}
	}
	row := Row{Number: number}
	var problems []string
	for _, c := range m.columns {
		cell := cells[c.index]
		if strings.TrimSpace(cell) == "" {
			continue
		}
		if problem := row.take(c.target, cell); problem != "" {
			problems = append(problems, problem)
		}
	}
	if row.Phone == "" && len(problems) == 0 {
		problems = append(problems, "The phone is missing.")
	}
	if len(problems) > 0 {
		return Row{Number: number, Problem: strings.Join(problems, " ")}
	}
	return row
}

func (r *Row) take(target, cell string) (problem string) {
	switch target {
	case targetPhone:
		e164, ok := phone.Read(cell)
		if !ok {
			return "The phone is not a valid phone number."
		}
		r.Phone = e164
	case targetFirstName:
		r.FirstName, problem = text(cell, target, maxName)
	case targetLastName:
		r.LastName, problem = text(cell, target, maxName)
	case targetCompany:
		r.Company, problem = text(cell, target, maxLine)
	case targetEmail:
		if r.Email, problem = text(cell, target, maxEmail); problem == "" {
			trimmed := strings.TrimSpace(cell)
			if a, err := mail.ParseAddress(trimmed); err != nil || a.Address != trimmed {
				return "The email is not an e-mail address."
			}
		}
	case targetLabels:
		return r.takeLabels(cell)
	case targetConsent:
		status := consent.Status(strings.ToLower(strings.TrimSpace(cell)))
		if !status.Valid() {
			return "The consent_status is not unknown, opted_in or opted_out."
		}
		r.Consent = status
	default:
		if r.Fields == nil {
			r.Fields = map[string]any{}
		}
		r.Fields[strings.TrimPrefix(target, fieldPrefix)] = cell
		if len(cell) > contact.MaxFields { // the sum is looked at when it is known
			return "The custom fields are too long."
		}
	}
	return problem
}

func (r *Row) takeLabels(cell string) (problem string) {
	names := label.Split(cell)
	if len(names) > contact.MaxLabels {
		return fmt.Sprintf("The row has more than %d labels.", contact.MaxLabels)
	}
	for _, name := range names {
		if f := fault.Of(label.Check(name, "")); f != nil {
			return f.Issues[0].Message
		}
	}
	r.Labels = names
	return ""
}

// text is a cell that is one text, as it is: whoever compares it with what is there may have to see its spaces.
func text(cell, target string, longest int) (value *string, problem string) {
	if utf8.RuneCountInString(cell) > longest && utf8.RuneCountInString(strings.TrimSpace(cell)) > longest {
		return nil, fmt.Sprintf("The %s has more than %d characters.", target, longest)
	}
	return &cell, ""
}

// Patch is what the row changes of a contact that exists: texts that differ, without the spaces around them, and custom
// fields that differ, among those that are there. Labels and consent are not part of it.
func (r *Row) Patch(c contact.Contact) contact.Patch {
	p := contact.Patch{
		FirstName: given(c.FirstName, r.FirstName), LastName: given(c.LastName, r.LastName),
		Company: given(c.Company, r.Company), Email: given(c.Email, r.Email),
	}
	for key, value := range r.Fields {
		if has, there := c.Fields[key]; there && contact.FieldText(has) == value {
			continue
		}
		if p.Fields == nil {
			p.Fields = make(map[string]any, len(c.Fields)+len(r.Fields))
			for k, v := range c.Fields {
				p.Fields[k] = v
			}
		}
		p.Fields[key] = value
	}
	return p
}

func given(has, cell *string) contact.Setting[string] {
	if cell == nil || has != nil && *has == *cell {
		return contact.Setting[string]{}
	}
	return contact.Set(trimmed(cell))
}

// Trimmed is the row's texts without the spaces around them, as a new contact gets them.
func (r *Row) Trimmed() (firstName, lastName, company, email *string) {
	return trimmed(r.FirstName), trimmed(r.LastName), trimmed(r.Company), trimmed(r.Email)
}

func trimmed(cell *string) *string {
	if cell == nil {
		return nil
	}
	value := strings.TrimSpace(*cell)
	return &value
}
