package projections

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/segment"
	"ledgerline/projections/readmodel"
)

// segmentSQL returns a condition on contact c. It is true exactly when segment.Node.Matches would be true for the
// contact at the time now. It is never null, so that it can be negated.
func segmentSQL(n *segment.Node, f *readmodel.Filter, now time.Time) string {
	switch {
	case n.All != nil:
		return joined(n.All, " and ", f, now)
	case n.Any != nil:
		return joined(n.Any, " or ", f, now)
	case n.Not != nil:
		return "not " + segmentSQL(n.Not, f, now)
	}
	return "coalesce(" + leafSQL(n.Leaf, f, now) + ", false)"
}

func joined(nodes []segment.Node, by string, f *readmodel.Filter, now time.Time) string {
	parts := make([]string, len(nodes))
	for i := range nodes {
		parts[i] = segmentSQL(&nodes[i], f, now)
	}
	return "(" + strings.Join(parts, by) + ")"
}

// segmentColumn is the column of contact c that holds a field of a definition. Texts that are compared without regard
// to case are folded.
func segmentColumn(field segment.Field) string {
	name := string(field)
	switch {
	case slices.Contains(searchedColumns, name):
		return "c." + foldedPrefix + name
	case field == segment.OwnerUserID:
		return "c." + name + "::text"
	}
	return "c." + name
}

// leafSQL returns the condition of a leaf. The condition is null when the contact does not have the field.
func leafSQL(l *segment.Leaf, f *readmodel.Filter, now time.Time) string {
	switch l.Field {
	case segment.Labels:
		return labelsSQL(l, f)
	case segment.Custom:
		return customSQL(l, f, now)
	default:
	}
	column := segmentColumn(l.Field)
	if l.Op == segment.Exists {
		if l.Wanted {
			return column + " is not null"
		}
		return column + " is null"
	}
	switch l.Op { //nolint:exhaustive // the others compare texts
	case segment.Before, segment.After, segment.WithinDays:
		from, to := l.TimeRange(now)
		return "(" + column + " >= " + f.Arg(from) + "::timestamptz and " + column + " < " + f.Arg(to) + "::timestamptz)"
	}
	if flag, ok := l.Values[0].(bool); ok {
		return column + " = " + f.Arg(flag == (l.Op == segment.Eq)) + "::boolean"
	}
	return textSQL(l, column, f)
}

func textSQL(l *segment.Leaf, column string, f *readmodel.Filter) string {
	switch l.Op { //nolint:exhaustive // segment.Parse accepts no other operator
	case segment.In:
		return column + " = any(" + f.Arg(textValues(l.Values)) + "::text[])"
	case segment.Ne:
		return column + " <> " + f.Arg(l.Text()) + "::text"
	case segment.Contains:
		return column + " like " + f.Arg(readmodel.Containing(l.Text())) + "::text"
	case segment.NotContains:
		return column + " not like " + f.Arg(readmodel.Containing(l.Text())) + "::text"
	case segment.StartsWith:
		return column + " like " + f.Arg(readmodel.StartingWith(l.Text())) + "::text"
	}
	return column + " = " + f.Arg(l.Text()) + "::text"
}

func textValues(values []any) []string {
	found := make([]string, 0, len(values))
	for _, v := range values {
		if text, ok := v.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

// labelsSQL returns the condition of a leaf about labels. It joins labels, because contact_labels may have rows of
// deleted labels, which do not count.
func labelsSQL(l *segment.Leaf, f *readmodel.Filter) string {
	const hasLabel = `exists (select from read.contact_labels cl join read.labels l on l.id = cl.label_id where cl.contact_id = c.id`
	if l.Op == segment.Exists {
		if l.Wanted {
			return hasLabel + ")"
		}
		return "not " + hasLabel + ")"
	}
	hasNamed := hasLabel + " and cl.label_id = any(" + f.Arg(labelIDs(l)) + "::uuid[]))"
	if l.Op == segment.NotContains {
		return "(" + hasLabel + ") and not " + hasNamed + ")"
	}
	return hasNamed
}

func labelIDs(l *segment.Leaf) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(l.Values))
	for _, v := range l.Values {
		if id, ok := v.(uuid.UUID); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// customSQL returns the condition of a leaf about a custom field. Texts and the elements of lists are stored folded.
// JSON null counts as missing.
func customSQL(l *segment.Leaf, f *readmodel.Filter, now time.Time) string {
	key := f.Arg(l.Key) + "::text"
	value := "(c.folded_fields -> " + key + ")"
	kind := "jsonb_typeof" + value
	switch l.Op {
	case segment.Exists:
		if l.Wanted {
			return kind + " <> 'null'"
		}
		return "coalesce(" + kind + ", 'null') = 'null'"
	case segment.Before, segment.After, segment.WithinDays:
		from, to := l.TimeRange(now)
		at := "(c.instants ->> " + key + ")::bigint"
		return "(" + at + " >= " + f.Arg(from.UnixMilli()) + "::bigint and " + at + " < " + f.Arg(to.UnixMilli()) + "::bigint)"
	case segment.Gt, segment.Lt:
		number, _ := l.Values[0].(float64)
		bound := f.Arg(strconv.FormatFloat(number, 'g', -1, 64)) + "::text::numeric"
		op := map[segment.Op]string{segment.Gt: ">", segment.Lt: "<"}[l.Op]
		return "case when " + kind + " = 'number' then " + value + "::numeric " + op + " " + bound + " end"
	case segment.Ne:
		return "(" + kind + " <> 'null' and " + value + " <> " + f.Arg(scalarJSON(l.Values[0])) + "::text::jsonb)"
	case segment.In:
		list := make([]string, len(l.Values))
		for i, v := range l.Values {
			list[i] = scalarJSON(v)
		}
		return value + " = any(" + f.Arg(list) + "::text[]::jsonb[])"
	case segment.StartsWith:
		return "case when " + kind + " = 'string' then " + value + " #>> '{}' like " + f.Arg(readmodel.StartingWith(l.Text())) + "::text end"
	case segment.Contains, segment.NotContains:
		text := "false"
		if part, ok := l.Values[0].(string); ok {
			text = value + " #>> '{}' like " + f.Arg(readmodel.Containing(part)) + "::text"
		}
		contains := "case " + kind + " when 'string' then " + text + " when 'array' then " + value + " @> " + f.Arg(scalarJSON(l.Values[0])) + "::text::jsonb else false end"
		if l.Op == segment.NotContains {
			return "(" + kind + " <> 'null' and not (" + contains + "))"
		}
		return contains
	default:
		return value + " = " + f.Arg(scalarJSON(l.Values[0])) + "::text::jsonb"
	}
}

func scalarJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", value) // cannot happen: segment.Parse accepts only texts, finite numbers and booleans
	}
	return string(text)
}

// indexTerms is what contact_index can check in advance: a matching contact has all tags, at least one tag of each list
// in anyTag, and a search text that is like each pattern.
type indexTerms struct {
	tags   []string
	anyTag [][]string
	like   []string
}

// shortestTerm is the smallest number of characters of a text that the trigram index can find.
const shortestTerm = 3

// addImplied adds the terms that every contact has that matches a definition. If there are none, the definition is
// evaluated for every contact.
func (w *indexTerms) addImplied(n *segment.Node) {
	switch {
	case n.All != nil:
		for i := range n.All {
			w.addImplied(&n.All[i])
		}
	case n.Any != nil:
		var group []string
		for i := range n.Any {
			var one indexTerms
			one.addImplied(&n.Any[i])
			switch {
			case len(one.tags) > 0:
				group = append(group, one.tags[0])
			case len(one.anyTag) > 0:
				group = append(group, one.anyTag[0]...)
			default:
				return // this alternative implies no tag
			}
		}
		w.anyTag = append(w.anyTag, group)
	case n.Leaf != nil:
		w.addImpliedByLeaf(n.Leaf)
	}
}

func (w *indexTerms) addImpliedByLeaf(l *segment.Leaf) {
	if l.Op == segment.Exists || l.Op == segment.Ne || l.Op == segment.NotContains {
		return
	}
	tagged := map[segment.Field]string{
		segment.ConsentStatus: tagConsent, segment.OwnerUserID: tagOwner, segment.AssignedLineID: tagLine, segment.Labels: tagLabel,
	}
	if prefix, ok := tagged[l.Field]; ok {
		group := make([]string, len(l.Values))
		for i, v := range l.Values {
			group[i] = prefix + fmt.Sprint(v)
		}
		if len(group) == 1 {
			w.tags = append(w.tags, group[0])
		} else {
			w.anyTag = append(w.anyTag, group)
		}
		return
	}
	switch {
	case l.Field == segment.Custom:
		w.addImpliedByCustom(l)
	case l.Field == segment.Phone, slices.Contains(searchedColumns, string(l.Field)):
		if len(l.Values) == 1 && utf8.RuneCountInString(l.Text()) >= shortestTerm {
			w.like = append(w.like, readmodel.Containing(l.Text()))
		}
	}
}

// addImpliedByCustom adds the tags of short texts. Longer texts have no tags: see tagField.
func (w *indexTerms) addImpliedByCustom(l *segment.Leaf) {
	if (l.Op != segment.Eq && l.Op != segment.In) || utf8.RuneCountInString(l.Key) > longestFieldTag {
		return
	}
	group := make([]string, 0, len(l.Values))
	for _, v := range l.Values {
		text, ok := v.(string)
		if !ok || utf8.RuneCountInString(text) > longestFieldTag {
			return
		}
		group = append(group, tagField+l.Key+"="+text)
	}
	w.anyTag = append(w.anyTag, group)
}
