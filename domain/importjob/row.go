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
	maxEmail   = 254
	maxName    = 100
	maxCompany = 200
)

// Row is what one row says about a contact. An empty cell changes nothing (rule CON-47).
type Row struct {
	Number    int    // as a spreadsheet shows it (rule CON-45)
	Phone     string // E.164
	FirstName *string
	LastName  *string
	Company   *string
	Email     *string
	Fields    map[string]any // custom fields; the values are texts
	Labels    []string
	Consent   consent.Status // "": the row says nothing
	// Problem states why the row cannot be imported, without quoting it. Then nothing but Number is set.
	Problem string
}

// Read reads a row. width is how many cells the row has in the file.
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
		if problem := row.set(c.target, cell); problem != "" {
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

// set stores the value of one cell, or returns what is wrong with it.
func (r *Row) set(target, cell string) (problem string) {
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
		r.Company, problem = text(cell, target, maxCompany)
	case targetEmail:
		if r.Email, problem = text(cell, target, maxEmail); problem == "" {
			trimmed := strings.TrimSpace(cell)
			if a, err := mail.ParseAddress(trimmed); err != nil || a.Address != trimmed {
				return "The email is not an e-mail address."
			}
		}
	case targetLabels:
		return r.setLabels(cell)
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
		if len(cell) > contact.MaxFields { // all fields together are checked against the contact's
			return "The custom fields are too long."
		}
	}
	return problem
}

func (r *Row) setLabels(cell string) (problem string) {
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

// text returns a cell as a value, with the spaces around it: the comparison with the stored value needs them.
func text(cell, target string, longest int) (value *string, problem string) {
	if utf8.RuneCountInString(cell) > longest && utf8.RuneCountInString(strings.TrimSpace(cell)) > longest {
		return nil, fmt.Sprintf("The %s has more than %d characters.", target, longest)
	}
	return &cell, ""
}

// Patch returns what the row changes of an existing contact: texts that differ, without the spaces around them, and
// custom fields that differ, merged into the present ones (rule CON-47). Labels and consent are not part of it.
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

// Trimmed returns the row's texts without the spaces around them, for a new contact.
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
