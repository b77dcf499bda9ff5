package segment

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/consent"
	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
)

// The bounds of a definition (rule CON-33).
const (
	maxBytes  = 64 << 10
	maxDepth  = 5
	maxLeaves = 50
	maxValues = 100  // of in
	maxText   = 1000 // characters of a value
	maxKey    = 200  // characters of a custom field's key
	maxDays   = 36500
)

// kind is the type of a field, from which its operations follow.
type kind struct {
	ops  []Op
	read func(value any) (any, string) // a value as the leaf stores it, or what is wrong with it
}

var (
	identity = []Op{Eq, Ne, In, Exists}
	texts    = kind{[]Op{Eq, Ne, Contains, NotContains, StartsWith, In, Exists}, readText}
	times    = kind{[]Op{Before, After, WithinDays, Exists}, readTime}
	kinds    = map[Field]kind{
		FirstName: texts, LastName: texts, Company: texts, Email: texts,
		Phone:          {texts.ops, readText},
		ConsentStatus:  {identity, readConsent},
		OwnerUserID:    {identity, readUUID},
		AssignedLineID: {identity, readLine},
		Labels:         {[]Op{Contains, NotContains, In, Exists}, readText},
		CreatedAt:      times, LastInboundAt: times, LastOutboundAt: times, FirstReplyAt: times,
		ChatCapable: {[]Op{Eq, Ne, Exists}, readFlag},
		Custom:      {[]Op{Eq, Ne, Contains, NotContains, StartsWith, In, Exists, Gt, Lt, Before, After, WithinDays}, readScalar},
	}
)

// Parse reads a definition as JSON decodes it. All problems are refused together with validation_failed, each at its
// node under pointer (rule CON-33). Labels are names until BindLabels is called.
func Parse(definition any, pointer string) (*Node, error) {
	return (&parser{}).parse(definition, pointer)
}

// ParseCondition is Parse for the condition of a workflow, which may also compare the field MessageBody.
func ParseCondition(definition any, pointer string) (*Node, error) {
	return (&parser{messages: true}).parse(definition, pointer)
}

func (p *parser) parse(definition any, pointer string) (*Node, error) {
	if text, err := json.Marshal(definition); err != nil || len(text) > maxBytes {
		return nil, fault.Invalid(pointer, "too_long", "A definition has at most %d bytes as JSON.", maxBytes)
	}
	n := p.node(definition, pointer, 1)
	if p.leaves > maxLeaves {
		p.wrong(pointer, "too_many_items", "A definition has at most %d conditions.", maxLeaves)
	}
	if len(p.issues) > 0 {
		return nil, fault.Invalids(p.issues...)
	}
	return &n, nil
}

type parser struct {
	messages bool // MessageBody is a field
	leaves   int
	issues   []fault.Issue
}

// mostIssues is how many issues are reported for one definition.
const mostIssues = 50

func (p *parser) wrong(pointer, code, format string, args ...any) {
	if len(p.issues) < mostIssues {
		p.issues = append(p.issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// unknown reports properties that a node does not have.
func (p *parser) unknown(object map[string]any, pointer string, known ...string) {
	var names []string
	for name := range object {
		if !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		p.wrong(pointer+"/"+escaper.Replace(name), "unknown_property", "This property is not known here.")
	}
}

func (p *parser) node(value any, pointer string, depth int) (n Node) {
	object, ok := value.(map[string]any)
	if !ok {
		p.wrong(pointer, "invalid_type", "Expected an object: all, any, not, or a condition with field, op and value.")
		return n
	}
	if depth > maxDepth {
		p.wrong(pointer, "too_deep", "A definition is at most %d levels deep.", maxDepth)
		return n
	}
	for _, name := range []string{"all", "any", "not"} {
		child, is := object[name]
		if !is {
			continue
		}
		p.unknown(object, pointer, name)
		switch name {
		case "all":
			n.All = p.list(child, pointer+"/all", depth)
		case "any":
			n.Any = p.list(child, pointer+"/any", depth)
		case "not":
			not := p.node(child, pointer+"/not", depth+1)
			n.Not = &not
		}
		return n
	}
	n.Leaf = p.leaf(object, pointer)
	return n
}

func (p *parser) list(value any, pointer string, depth int) []Node {
	children, ok := value.([]any)
	switch {
	case !ok:
		p.wrong(pointer, "invalid_type", "Expected a list of conditions.")
	case len(children) == 0:
		p.wrong(pointer, "required", "At least one condition is needed.")
	}
	nodes := make([]Node, 0, min(len(children), maxLeaves))
	for i, child := range children {
		if p.leaves > maxLeaves { // Parse reports it
			break
		}
		nodes = append(nodes, p.node(child, fmt.Sprintf("%s/%d", pointer, i), depth+1))
	}
	return nodes
}

func (p *parser) leaf(object map[string]any, pointer string) *Leaf {
	p.leaves++
	p.unknown(object, pointer, "field", "op", "value")
	l := &Leaf{}
	field, ok := object["field"].(string)
	if !ok {
		p.wrong(pointer+"/field", "required", "A condition names a field.")
		return l
	}
	l.Field = Field(field)
	if key, custom := strings.CutPrefix(field, string(Custom)); custom {
		l.Field, l.Key = Custom, key
		if key == "" || utf8.RuneCountInString(key) > maxKey {
			p.wrong(pointer+"/field", "invalid_value", "A custom field is fields. and its key of at most %d characters.", maxKey)
			return l
		}
	}
	k, known := kinds[l.Field]
	if p.messages && l.Field == MessageBody {
		k, known = texts, true
	}
	if !known {
		p.wrong(pointer+"/field", "unknown_field", "There is no such field.")
		return l
	}
	op, ok := object["op"].(string)
	l.Op = Op(op)
	switch {
	case !ok:
		p.wrong(pointer+"/op", "required", "A condition names an operation.")
	case !slices.Contains(k.ops, l.Op):
		p.wrong(pointer+"/op", "unknown_op", "Expected one of: %s.", list(k.ops))
	default:
		p.values(l, k, object, pointer+"/value")
	}
	return l
}

func list(ops []Op) string {
	words := make([]string, len(ops))
	for i, op := range ops {
		words[i] = string(op)
	}
	return strings.Join(words, ", ")
}

// values reads the values that the leaf compares with.
func (p *parser) values(l *Leaf, k kind, object map[string]any, pointer string) {
	value, given := object["value"]
	if !given {
		p.wrong(pointer, "required", "A condition has a value.")
		return
	}
	switch l.Op { //nolint:exhaustive // the others compare with a value of the field's kind
	case Exists:
		wanted, ok := value.(bool)
		if !ok {
			p.wrong(pointer, "invalid_type", "Expected true or false.")
		}
		l.Wanted = wanted
		return
	case In:
		p.several(l, k, value, pointer)
		return
	case WithinDays:
		k.read = readDays
	case Before, After:
		k.read = readTime
	case Gt, Lt:
		k.read = readNumber
	case StartsWith:
		k.read = readText
	}
	p.one(l, k, value, pointer)
}

func (p *parser) several(l *Leaf, k kind, value any, pointer string) {
	list, ok := value.([]any)
	switch {
	case !ok:
		p.wrong(pointer, "invalid_type", "Expected a list of values.")
	case len(list) == 0:
		p.wrong(pointer, "required", "At least one value is needed.")
	case len(list) > maxValues:
		p.wrong(pointer, "too_many_items", "At most %d values.", maxValues)
	default:
		for i, value := range list {
			p.one(l, k, value, fmt.Sprintf("%s/%d", pointer, i))
		}
	}
}

func (p *parser) one(l *Leaf, k kind, value any, pointer string) {
	if text, ok := value.(string); ok && utf8.RuneCountInString(text) > maxText {
		p.wrong(pointer, "too_long", "A value has at most %d characters.", maxText)
		return
	}
	kept, problem := k.read(value)
	if problem != "" {
		p.wrong(pointer, "invalid_value", "%s", problem)
		return
	}
	if l.Field == Phone && (l.Op == Eq || l.Op == Ne || l.Op == In) {
		if text, _ := value.(string); text != "" {
			if e164, ok := phone.Read(text); ok {
				kept = e164
			}
		}
	}
	if l.Field == Labels {
		text, _ := value.(string)
		l.names = append(l.names, name{text, pointer})
	}
	l.Values = append(l.Values, kept)
}

func readText(value any) (any, string) {
	text, ok := value.(string)
	if !ok || text == "" {
		return nil, "Expected a text."
	}
	return Fold(text), ""
}

func readScalar(value any) (any, string) {
	switch v := value.(type) {
	case string:
		return Fold(v), ""
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			break
		}
		return v, ""
	case bool:
		return v, ""
	}
	return nil, "Expected a text, a number, true or false."
}

func readNumber(value any) (any, string) {
	if number, ok := value.(float64); ok && !math.IsInf(number, 0) && !math.IsNaN(number) {
		return number, ""
	}
	return nil, "Expected a number."
}

func readFlag(value any) (any, string) {
	if flag, ok := value.(bool); ok {
		return flag, ""
	}
	return nil, "Expected true or false."
}

func readConsent(value any) (any, string) {
	text, _ := value.(string)
	if !consent.Status(text).Valid() {
		return nil, "Expected unknown, opted_in or opted_out."
	}
	return text, ""
}

func readUUID(value any) (any, string) {
	text, _ := value.(string)
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(id.String()) {
		return nil, "Expected a UUID."
	}
	return id.String(), ""
}

func readLine(value any) (any, string) {
	text, _ := value.(string)
	if !strings.HasPrefix(text, "ln_") {
		return nil, "Expected an id that begins with ln_."
	}
	return text, ""
}

func readTime(value any) (any, string) {
	at, ok := Instant(value)
	if !ok {
		return nil, "Expected a time in RFC 3339, or a date."
	}
	return at, ""
}

func readDays(value any) (any, string) {
	number, ok := value.(float64)
	if !ok || number != math.Trunc(number) || number < 1 || number > maxDays {
		return nil, fmt.Sprintf("Expected a whole number of days from 1 to %d.", maxDays)
	}
	return int(number), ""
}

// BindLabels replaces the names of labels in the definition by their ids; find looks up each name. A name that is not
// found is refused with validation_failed, issue unknown_label at its node (rule CON-38).
func (n *Node) BindLabels(find func(name string) (id uuid.UUID, found bool)) error {
	var issues []fault.Issue
	n.Walk(func(l *Leaf) {
		for i, label := range l.names {
			id, found := find(label.text)
			if !found {
				issues = append(issues, fault.Issue{Location: "body", Path: label.pointer, Code: "unknown_label", Message: "There is no such label."})
			}
			l.Values[i] = id
		}
	})
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

// LabelNames returns the labels that the definition names, as it writes them.
func (n *Node) LabelNames() (names []string) {
	n.Walk(func(l *Leaf) {
		for _, label := range l.names {
			names = append(names, label.text)
		}
	})
	return names
}

// Walk visits every leaf.
func (n *Node) Walk(visit func(l *Leaf)) {
	for _, list := range [][]Node{n.All, n.Any} {
		for i := range list {
			list[i].Walk(visit)
		}
	}
	if n.Not != nil {
		n.Not.Walk(visit)
	}
	if n.Leaf != nil {
		visit(n.Leaf)
	}
}

// ChangesWithTime reports whether the contacts that the definition selects change as time passes.
func (n *Node) ChangesWithTime() (moving bool) {
	n.Walk(func(l *Leaf) { moving = moving || l.Op == WithinDays })
	return moving
}

// RenameLabels returns a copy of a definition, as JSON decodes it, with the present names of labels (rule CON-38);
// now returns the present name of each. The definition must be one that Parse accepts.
func RenameLabels(definition any, now func(name string) string) any {
	switch v := definition.(type) {
	case map[string]any:
		renamed := make(map[string]any, len(v))
		for key, value := range v {
			renamed[key] = value
			if key == "all" || key == "any" || key == "not" {
				renamed[key] = RenameLabels(value, now)
			}
		}
		if v["field"] == string(Labels) {
			renamed["value"] = renameValue(v["value"], now)
		}
		return renamed
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			list[i] = RenameLabels(value, now)
		}
		return list
	}
	return definition
}

func renameValue(value any, now func(name string) string) any {
	switch v := value.(type) {
	case string:
		return now(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = renameValue(element, now)
		}
		return list
	}
	return value
}
