package projections

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/segment"
	"ledgerline/projections/readmodel"
)

// ContactFilter has the filters of the contact list. An empty one does not apply.
type ContactFilter struct {
	Q, Phone, Label, ConsentStatus, OwnerUserID, LineID string
	SegmentID                                           string // UUID
}

// contacts filters contact c by what the viewer may see. An agent sees the contacts that it owns, those whose
// conversation is assigned to it or to nobody, and those without owner and conversation.
func (v Viewer) contacts() *readmodel.Filter {
	f := &readmodel.Filter{}
	f.Add("c.workspace_id = %s", v.Workspace)
	if v.Agent != uuid.Nil {
		f.Add(`(c.owner_user_id = %s or (c.has_conversation and (c.conversation_assignee is null or c.conversation_assignee = %s))
			or (c.owner_user_id is null and not c.has_conversation))`, v.Agent)
	}
	return f
}

// Contact finds a contact that the viewer may see; found is false when there is none.
func (s *Store) Contact(ctx context.Context, v Viewer, id string) (c Contact, found bool, err error) {
	f := v.contacts()
	f.Add("c.id = %s", id)
	return readmodel.One(ctx, s.Reader, "contact", contactFields.Scan, `select `+contactFields.SQL+` from read.contacts c`+f.Where(), f.Args...)
}

var contactsByIDSQL = `select ` + contactFields.SQL + ` from unnest($1::text[]) u (id) join read.contacts c on c.id = u.id`

// ContactsByID finds contacts of any workspace in no order; ids that do not exist are left out.
func (s *Store) ContactsByID(ctx context.Context, ids []string) ([]Contact, error) {
	return readmodel.List(ctx, s.Reader, "contacts by id", contactFields.Scan, contactsByIDSQL, ids)
}

// Contacts lists contacts, newest first. The order is that of the ledger: a contact that is added while a client pages
// does not move the contacts that the client has not seen.
func (s *Store) Contacts(ctx context.Context, v Viewer, by ContactFilter, after *readmodel.Cursor, limit int) (readmodel.Page[Contact], error) {
	q, err := by.query(ctx, s, v)
	if err != nil || q.empty {
		return readmodel.Page[Contact]{}, err
	}
	sql := q.sql(listedContactFields.SQL, after, limit+1)
	key := func(c *listedContact) readmodel.Cursor {
		return readmodel.Cursor{ID: strconv.FormatInt(c.Position, 10)}
	}
	listed, err := readmodel.ReadPage(ctx, s.Reader, "contacts", limit, listedContactFields.Scan, key, sql, q.Args...)
	if err != nil {
		return readmodel.Page[Contact]{}, err
	}
	contacts := readmodel.Page[Contact]{Rows: make([]Contact, len(listed.Rows)), Next: listed.Next}
	for i := range listed.Rows {
		contacts.Rows[i] = listed.Rows[i].Contact
	}
	return contacts, nil
}

// contactQuery is a list query: c is a contact, i its row in contact_index.
type contactQuery struct {
	*readmodel.Filter
	indexTerms
	viewer       Viewer
	empty        bool // no contact can match
	byPhone      bool // at most one contact matches
	needsContact bool // a condition is about c and not only about i
}

// query translates the filters to SQL. Ids of labels and definitions of segments are read first, so that the planner
// knows the values.
func (by ContactFilter) query(ctx context.Context, s *Store, v Viewer) (*contactQuery, error) {
	q := &contactQuery{Filter: &readmodel.Filter{}, viewer: v}
	q.Add("i.workspace_id = %s", v.Workspace)
	if by.Phone != "" {
		q.byPhone = true
		q.Add("c.workspace_id = %s", v.Workspace)
		q.Add("c.phone = %s", by.Phone)
	}
	var terms indexTerms
	if by.ConsentStatus != "" {
		terms.tags = append(terms.tags, tagConsent+by.ConsentStatus)
	}
	if by.OwnerUserID != "" {
		terms.tags = append(terms.tags, tagOwner+by.OwnerUserID)
	}
	if by.LineID != "" {
		terms.tags = append(terms.tags, tagLine+by.LineID)
	}
	if by.Label != "" {
		id, found, err := s.labelNamed(ctx, v, by.Label)
		if err != nil {
			return nil, err
		}
		terms.tags, q.empty = append(terms.tags, tagLabel+id.String()), !found
	}
	if v.Agent != uuid.Nil {
		terms.anyTag = append(terms.anyTag, []string{tagSeenBy, tagSeenBy + v.Agent.String()})
	}
	q.require(&terms)
	if condition, indexed := searchSQL(q.Filter, by.Q); condition != "" {
		q.Require(condition)
		if indexed {
			q.like = append(q.like, by.Q)
		}
	}
	if by.SegmentID != "" {
		if err := q.inSegment(ctx, s, by.SegmentID); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// require adds the conditions that the index answers.
func (q *contactQuery) require(terms *indexTerms) {
	for _, tag := range terms.tags {
		q.Add("i.tags @> array[%s::text]", tag)
	}
	for _, tags := range terms.anyTag {
		q.Add("i.tags && %s::text[]", tags)
	}
	for _, pattern := range terms.like {
		q.Add("i.search like %s", pattern)
	}
	q.tags, q.anyTag, q.like = append(q.tags, terms.tags...), append(q.anyTag, terms.anyTag...), append(q.like, terms.like...)
}

// inSegment requires that the contact is in a segment.
func (q *contactQuery) inSegment(ctx context.Context, s *Store, id string) error {
	node, found, err := s.SegmentDefinition(ctx, q.viewer, id)
	if err != nil {
		return err
	}
	if !found {
		q.empty = true
		return nil
	}
	q.Require(segmentSQL(node, q.Filter, s.Ledger().Now()))
	q.needsContact = true
	var terms indexTerms
	terms.addImplied(node)
	q.require(&terms)
	return nil
}

// allSQL is the filters as conditions on contact c, for queries that read all matching contacts. empty tells that no
// contact can match.
func (by ContactFilter) allSQL(ctx context.Context, s *Store, v Viewer) (f *readmodel.Filter, empty bool, err error) {
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
	if condition, _ := searchSQL(f, by.Q); condition != "" {
		f.Require("exists (select from read.contact_index i where i.contact_id = c.id and " + condition + ")")
	}
	if by.SegmentID != "" {
		node, found, err := s.SegmentDefinition(ctx, v, by.SegmentID)
		if err != nil || !found {
			return nil, true, err
		}
		f.Require(segmentSQL(node, f, s.Ledger().Now()))
	}
	return f, false, nil
}

// longDigits is the number of digits from which a text that is written like a phone number is searched as one only.
const longDigits = 10

// searchSQL is the condition on i, a contact's row in contact_index, that a text is part of the contact's searched
// texts or number; "" when the text is empty. Numbers may be written with spaces, brackets, hyphens, dots and slashes,
// and with the leading zero of a national number: the digits alone are searched as well. indexed tells that the index
// can answer the condition.
func searchSQL(f *readmodel.Filter, text string) (condition string, indexed bool) {
	term := segment.Fold(strings.TrimSpace(text))
	if term == "" {
		return "", false
	}
	terms := []string{term}
	if digits, ok := phoneDigits(term); ok {
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
		if utf8.RuneCountInString(t) < shortestTerm { // the expression keeps the planner from using the index
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

// phoneDigits returns the digits, and a leading plus sign, of a text that is written like a phone number.
func phoneDigits(text string) (string, bool) {
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

// sql selects columns of at most limit contacts after the cursor, newest first.
func (q *contactQuery) sql(columns string, after *readmodel.Cursor, limit int) string {
	if after != nil {
		q.Add("i.position < %s::text::bigint", after.ID)
	}
	limitArg := q.Arg(limit)
	const joined = ` from read.contact_index i join read.contacts c on c.id = i.contact_id`
	if q.byPhone || len(q.tags)+len(q.anyTag)+len(q.like) == 0 {
		return `select ` + columns + joined + q.Where() + ` order by i.position desc limit ` + limitArg
	}
	newest := `i.workspace_id = ` + q.Arg(q.viewer.Workspace)
	if after != nil {
		newest += ` and i.position < ` + q.Arg(after.ID) + `::text::bigint`
	}
	bucket := q.Arg(tagBucket + q.viewer.Workspace.String() + ":")
	from := ` from read.contact_index i`
	if q.needsContact {
		from = joined
	}
	// "position + 0" keeps the planner from reading contacts in order instead of using the GIN index for one bucket.
	return fmt.Sprintf(`select %[1]s from (
		select r.* from generate_series((select i.bucket from read.contact_index i where %[2]s order by i.position desc limit 1), 0, -1) b (bucket)
		cross join lateral (select i.contact_id, i.position%[3]s%[4]s
			order by i.position + 0 desc limit %[5]s) r limit %[5]s
		) i join read.contacts c on c.id = i.contact_id order by i.position desc`,
		columns, newest, from, q.Where(`i.tags @> array[`+bucket+`::text || b.bucket]`), limitArg)
}
