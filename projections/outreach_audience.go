package projections

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ledgerline/projections/readmodel"
)

// AudienceMember is what a dry run of an outreach needs to know of a contact.
type AudienceMember struct {
	ContactID                           string
	Phone                               string
	FirstName, LastName, Company, Email *string
	Fields                              map[string]any
	OptedOut, OptedIn                   bool
	Known                               bool // a line has written to the contact before
}

const audienceColumns = `c.id, c.phone, c.first_name, c.last_name, c.company, c.email, c.fields, c.consent_status, c.last_outbound_at is not null`

// EachAudienceMember calls a function for each contact of a segment, or for each of these contacts of the workspace
// when segmentID is nil. It streams them; no order is promised. A segment that does not exist has none.
func (s *Store) EachAudienceMember(ctx context.Context, v Viewer, segmentID *string, contactIDs []string, each func(*AudienceMember)) error {
	f := &readmodel.Filter{}
	from, found, err := s.audienceSQL(ctx, v, segmentID, contactIDs, f)
	if err != nil || !found {
		return err
	}
	rows, err := s.DB(ctx).Query(ctx, `select `+audienceColumns+from, f.Args...)
	if err != nil {
		return fmt.Errorf("projections: audience: %w", err)
	}
	var (
		m       AudienceMember
		fields  []byte
		consent string
	)
	_, err = pgx.ForEachRow(rows, []any{&m.ContactID, &m.Phone, &m.FirstName, &m.LastName, &m.Company, &m.Email, &fields, &consent, &m.Known}, func() error {
		m.Fields, m.OptedOut, m.OptedIn = nil, consent == "opted_out", consent == "opted_in"
		if err := json.Unmarshal(fields, &m.Fields); err != nil {
			return err
		}
		each(&m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("projections: audience: %w", err)
	}
	return nil
}

func (s *Store) audienceSQL(ctx context.Context, v Viewer, segmentID *string, contactIDs []string, f *readmodel.Filter) (from string, found bool, err error) {
	f.Add("c.workspace_id = %s", v.Workspace)
	if segmentID == nil {
		f.Add("c.id = any(%s)", contactIDs)
		return ` from read.contacts c` + f.Where(), true, nil
	}
	node, found, err := s.SegmentDefinition(ctx, v, *segmentID)
	if err != nil || !found {
		return "", false, err
	}
	f.Require(segmentSQL(node, f, s.Ledger().Now()))
	return ` from read.contacts c` + f.Where(), true, nil
}

// SegmentAudienceSQL returns a statement that selects the ids and the positions of the contacts of a segment, with its
// arguments. found is false when there is no such segment.
func (s *Store) SegmentAudienceSQL(ctx context.Context, v Viewer, segmentID string) (sql string, args []any, found bool, err error) {
	f := &readmodel.Filter{}
	from, found, err := s.audienceSQL(ctx, v, &segmentID, nil, f)
	return `select c.id, c.position` + from, f.Args, found, err
}

// AudienceGroup is the people of an audience whose numbers begin alike, and so lie in the same zones.
type AudienceGroup struct {
	Phone      string // of one of them
	New, Known int
}

// audiencePrefix is how many characters of a number decide about its zones: +1 and the area code.
const audiencePrefix = 5

const audienceGroupsSQL = `select min(c.phone), count(*) filter (where c.last_outbound_at is null), count(*) filter (where c.last_outbound_at is not null)
	from read.contacts c join (%s) a on a.contact_id = c.id group by left(c.phone, %d) order by 1`

// AudienceGroups groups the contacts whose ids a statement selects as contact_id.
func (s *Store) AudienceGroups(ctx context.Context, sql string, args ...any) ([]AudienceGroup, error) {
	return readmodel.List(ctx, s.Reader, "groups of an audience", pgx.RowToStructByPos[AudienceGroup], fmt.Sprintf(audienceGroupsSQL, sql, audiencePrefix), args...)
}

// GroupKey is what the numbers of a group have in common.
func GroupKey(phone string) string { return phone[:min(len(phone), audiencePrefix)] }
