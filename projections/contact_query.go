package projections

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ledgerline/domain/segment"
	"ledgerline/projections/readmodel"
)

// ContactFilter are the filters of the contact list (interface 4.1); empty ones do not filter.
type ContactFilter struct {
	Q, Phone, Label, ConsentStatus, OwnerUserID, LineID string
	SegmentID                                           string // a UUID; of a segment of the viewer's workspace, see Store.Segment
}

// contactQuery is a question about contacts: c is the contact, i its row in the index.
type contactQuery struct {
	*readmodel.Filter
	narrowing
	viewer Viewer
	none   bool // nobody can fulfil it
	phone  bool // at most one contact does
	whole  bool // a condition needs the contact itself
}

// query says in SQL what the filters mean. What it finds out on the way, ids of names and definitions of segments, is read
// beforehand, so that the planner sees values.
func (by ContactFilter) query(ctx context.Context, s *Store, v Viewer) (*contactQuery, error) {
	q := &contactQuery{Filter: &readmodel.Filter{}, viewer: v}
	q.Add("i.workspace_id = %s", v.Workspace)
	if by.Phone != "" {
		q.phone = true
		q.Add("c.workspace_id = %s", v.Workspace)
		q.Add("c.phone = %s", by.Phone)
	}
	if by.ConsentStatus != "" {
		q.tags = append(q.tags, tagConsent+by.ConsentStatus)
	}
	if by.OwnerUserID != "" {
		q.tags = append(q.tags, tagOwner+by.OwnerUserID)
	}
	if by.LineID != "" {
		q.tags = append(q.tags, tagLine+by.LineID)
	}
	if by.Label != "" {
		id, found, err := s.labelNamed(ctx, v, by.Label)
		if err != nil {
			return nil, err
		}
		q.tags, q.none = append(q.tags, tagLabel+id.String()), !found
	}
	if v.Agent != uuid.Nil {
		q.groups = append(q.groups, []string{tagSeenBy, tagSeenBy + v.Agent.String()})
	}
	for _, tag := range q.tags {
		q.Add("i.tags @> array[%s::text]", tag)
	}
	for _, group := range q.groups {
		q.Add("i.tags && %s::text[]", group)
	}
	q.search(by.Q)
	if by.SegmentID != "" {
		if err := q.within(ctx, s, by.SegmentID); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// within requires that the contact is meant by a segment.
func (q *contactQuery) within(ctx context.Context, s *Store, id string) error {
	node, found, err := s.SegmentDefinition(ctx, q.viewer, id)
	if err != nil {
		return err
	}
	if !found {
		q.none = true
		return nil
	}
	q.Conditions, q.whole = append(q.Conditions, segmentSQL(node, q.Filter, s.Ledger().Now())), true
	var narrowed narrowing
	narrowed.narrow(node)
	for _, tag := range narrowed.tags {
		q.Add("i.tags @> array[%s::text]", tag)
	}
	for _, group := range narrowed.groups {
		q.Add("i.tags && %s::text[]", group)
	}
	for _, pattern := range narrowed.like {
		q.Add("i.search like %s", pattern)
	}
	q.tags, q.groups, q.like = append(q.tags, narrowed.tags...), append(q.groups, narrowed.groups...), append(q.like, narrowed.like...)
	return nil
}

// plain is query for those who read all of the contacts there are: conditions on contact c alone.
func (by ContactFilter) plain(ctx context.Context, s *Store, v Viewer) (f *readmodel.Filter, none bool, err error) {
	f = v.contacts()
	f.Equal("c.phone", by.Phone)
	f.Equal("c.consent_status", by.ConsentStatus)
	f.Equal("c.owner_user_id::text", by.OwnerUserID)
	f.Equal("c.assigned_line_id", by.LineID)
	if by.Label != "" {
		id, found, err := s.labelNamed(ctx, v, by.Label)
		if err != nil || !found {
			return nil, true, err
		}
		f.Add("exists (select from read.contact_labels cl where cl.contact_id = c.id and cl.label_id = %s)", id)
	}
	if by.Q != "" {
		if condition, _ := searchSQL(f, by.Q); condition != "" {
			f.Conditions = append(f.Conditions, "exists (select from read.contact_index i where i.contact_id = c.id and "+condition+")")
		}
	}
	if by.SegmentID != "" {
		node, found, err := s.SegmentDefinition(ctx, v, by.SegmentID)
		if err != nil || !found {
			return nil, true, err
		}
		f.Conditions = append(f.Conditions, segmentSQL(node, f, s.Ledger().Now()))
	}
	return f, false, nil
}

// search requires that the text is part of the contact's names, company, address or number.
func (q *contactQuery) search(text string) {
	condition, narrow := searchSQL(q.Filter, text)
	if condition != "" {
		q.Conditions = append(q.Conditions, condition)
	}
	if narrow {
		q.like = append(q.like, text)
	}
}

// longDigits is from how many digits on a text that is written as a number is one and nothing else.
const longDigits = 10

// searchSQL is the condition on i, a contact's row in the index, that a text is part of the contact's names, company, address
// or number; "" when the text is empty. A number may be written as people do: what is left without the marks between digits,
// and without the zeros in front of national numbers, is looked for as well. indexed tells that the index can find it.
func searchSQL(f *readmodel.Filter, text string) (condition string, indexed bool) {
	term := segment.Fold(strings.TrimSpace(text))
	if term == "" {
		return "", false
	}
	terms := []string{term}
	if digits, ok := dialled(term); ok {
		if len(digits) >= longDigits {
			terms = nil
		}
		terms = append(terms, digits)
		if national := strings.TrimLeft(digits, "0"); national != "" && len(national) < len(digits) {
			terms = append(terms, national)
		}
	}
	column := "i.search"
	for _, t := range terms {
		if utf8.RuneCountInString(t) < shortestTerm { // the index cannot find it, and is hidden from the planner
			column = "(i.search || '')"
		}
	}
	var conditions []string
	for n, t := range terms {
		if n == 0 || t != terms[n-1] {
			conditions = append(conditions, column+" like "+f.Arg(readmodel.Containing(t)))
		}
	}
	return "(" + strings.Join(conditions, " or ") + ")", column == "i.search"
}

// dialled gives the digits of a text that is written as a phone number is, with a plus sign in front if it has one.
func dialled(text string) (string, bool) {
	var b strings.Builder
	for n, r := range text {
		switch {
		case r >= '0' && r <= '9', r == '+' && n == 0:
			b.WriteRune(r)
		case strings.ContainsRune("()-./", r), unicode.IsSpace(r):
		default:
			return "", false
		}
	}
	digits := b.String()
	return digits, strings.TrimPrefix(digits, "+") != ""
}

// sql is the query for the rows of at most limit contacts before a position, newest first: columns are of contact c.
func (q *contactQuery) sql(columns string, after *readmodel.Cursor, limit int) string {
	if after != nil {
		q.Add("i.position < %s::text::bigint", after.ID)
	}
	most := q.Arg(limit)
	const of = ` from read.contact_index i join read.contacts c on c.id = i.contact_id`
	if q.phone || len(q.tags)+len(q.groups)+len(q.like) == 0 {
		return `select ` + columns + of + q.Where() + ` order by i.position desc limit ` + most
	}
	newest := `i.workspace_id = ` + q.Arg(q.viewer.Workspace)
	if after != nil {
		newest += ` and i.position < ` + q.Arg(after.ID) + `::text::bigint`
	}
	place := q.Arg(tagBucket + q.viewer.Workspace.String() + ":")
	asked := ` from read.contact_index i`
	if q.whole {
		asked = of
	}
	// The sum in "order by" keeps the planner from walking contacts in order in place of asking the index for a bucket.
	return `select ` + columns + ` from (
		select r.* from generate_series((select i.bucket from read.contact_index i where ` + newest + ` order by i.position desc limit 1), 0, -1) b (bucket)
		cross join lateral (select i.contact_id, i.position` + asked + q.Where(`i.tags @> array[`+place+`::text || b.bucket]`) + `
			order by i.position + 0 desc limit ` + most + `) r limit ` + most + `
		) i join read.contacts c on c.id = i.contact_id order by i.position desc`
}

// placed is a contact with its place in the list.
type placed struct {
	Contact
	position int64
}

// Contacts lists contacts, newest first: in the order of the ledger, so that a contact that is added while a client pages
// never moves those that it has not seen.
func (s *Store) Contacts(ctx context.Context, v Viewer, by ContactFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Contact], error) {
	q, err := by.query(ctx, s, v)
	if err != nil || q.none {
		return readmodel.Page[Contact]{}, err
	}
	sql := q.sql("i.position, "+contactColumns, after, limit+1)
	found, err := readmodel.List(ctx, s.Reader, "contacts", scanPlaced, sql, q.Args...)
	if err != nil {
		return readmodel.Page[Contact]{}, err
	}
	rows := readmodel.PageOf(found, limit, func(p *placed) readmodel.Cursor { return readmodel.Cursor{ID: strconv.FormatInt(p.position, 10)} })
	contacts := readmodel.Page[Contact]{Rows: make([]Contact, len(rows.Rows)), Next: rows.Next}
	for i := range rows.Rows {
		contacts.Rows[i] = rows.Rows[i].Contact
	}
	return contacts, nil
}

func scanPlaced(row pgx.CollectableRow) (p placed, err error) {
	c, into := contactInto()
	if err := row.Scan(append([]any{&p.position}, into...)...); err != nil {
		return p, fmt.Errorf("a contact's row: %w", err)
	}
	p.Contact = c.contact()
	return p, nil
}

const contactsByIDSQL = `select ` + contactColumns + ` from unnest($1::text[]) u (id) join read.contacts c on c.id = u.id`

// ContactsByID finds contacts of any workspace in no order; ids that do not exist are left out.
func (s *Store) ContactsByID(ctx context.Context, ids []string) ([]Contact, error) {
	return readmodel.List(ctx, s.Reader, "contacts by id", scanContact, contactsByIDSQL, ids)
}
