// Package events says what can happen: one plain struct per event, one file per resource, and a registry that binds
// each struct to its wire name and version. A released event is never edited: a new version and an upcaster are added.
//
// Facts are the struct's JSON fields. Personal data lies in a separate struct, reached through Sealed, which the
// event store seals under the key of the person it belongs to.
package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Event is a pointer to one of the registered structs.
type Event any

// Sealed is implemented by events that carry personal data.
type Sealed interface {
	// Subject names whose data it is: the contact or user whose key seals it.
	Subject() string
	// Personal points to the struct that holds the data, its field to be read and filled.
	Personal() any
}

// Actor is who caused an event.
type Actor struct {
	Type string `json:"type"` // key, identity, user, contact, system or operator
	ID   string `json:"id,omitempty"`
}

// Envelope is what an aggregate may want to know about an event beyond the event itself.
type Envelope struct {
	Organisation uuid.UUID
	Workspace    uuid.UUID // uuid.Nil for events of the organisation itself
	At           time.Time // when it happened
}

// Upcaster turns the facts and the personal data (nil when there is none) of one version into those of the next.
type Upcaster func(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error)

// unchanged is the upcaster to a version that only adds fields, whose absence means what was so before.
func unchanged(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error) {
	return facts, personal, nil
}

type entry struct {
	name      string
	version   int
	kind      reflect.Type
	upcasters map[int]Upcaster // from version
}

// Registry binds structs to wire names and versions.
type Registry struct {
	byName map[string]*entry
	byKind map[reflect.Type]*entry
}

// Registration is one line of the registry's table.
type Registration struct{ entry }

// Define registers T under a wire name with its current version, and with the upcasters from every earlier one.
func Define[T any](name string, version int, upcasters ...Upcaster) Registration {
	e := entry{name: name, version: version, kind: reflect.TypeFor[T](), upcasters: map[int]Upcaster{}}
	if len(upcasters) != version-1 {
		panic(fmt.Sprintf("events: %s is at version %d and needs %d upcasters, has %d", name, version, version-1, len(upcasters)))
	}
	for i, u := range upcasters {
		e.upcasters[i+1] = u
	}
	return Registration{e}
}

// NewRegistry panics on a name or struct that is registered twice: that is a mistake in the program.
func NewRegistry(rows ...Registration) *Registry {
	r := &Registry{byName: map[string]*entry{}, byKind: map[reflect.Type]*entry{}}
	for _, row := range rows {
		e := row.entry
		if r.byName[e.name] != nil || r.byKind[e.kind] != nil {
			panic("events: registered twice: " + e.name)
		}
		r.byName[e.name], r.byKind[e.kind] = &e, &e
	}
	return r
}

// Name gives the wire name and version of an event. It panics on a struct that is not registered.
func (r *Registry) Name(e Event) (name string, version int) {
	t := reflect.TypeOf(e)
	if t == nil || t.Kind() != reflect.Pointer || r.byKind[t.Elem()] == nil {
		panic(fmt.Sprintf("events: not registered: %T", e))
	}
	found := r.byKind[t.Elem()]
	return found.name, found.version
}

// Decode reads an event from its facts and, when it has been opened, its personal data. Older versions are lifted
// to the current one. An unknown name or a version from the future is an error.
func (r *Registry) Decode(name string, version int, facts, personal []byte) (Event, error) {
	e := r.byName[name]
	if e == nil {
		return nil, fmt.Errorf("events: unknown type %q", name)
	}
	if version < 1 || version > e.version {
		return nil, fmt.Errorf("events: %s version %d is not known here (newest is %d)", name, version, e.version)
	}
	for v := version; v < e.version; v++ {
		var err error
		if facts, personal, err = e.upcasters[v](facts, personal); err != nil {
			return nil, fmt.Errorf("events: lift %s from version %d: %w", name, v, err)
		}
	}
	event := reflect.New(e.kind).Interface()
	if err := json.Unmarshal(facts, event); err != nil {
		return nil, fmt.Errorf("events: decode %s: %w", name, err)
	}
	if sealed, ok := event.(Sealed); ok && len(personal) > 0 {
		if err := json.Unmarshal(personal, sealed.Personal()); err != nil {
			return nil, fmt.Errorf("events: decode personal data of %s: %w", name, err)
		}
	}
	return event, nil
}

// New makes an empty event of a wire name; nil when it is unknown.
func (r *Registry) New(name string) Event {
	if e := r.byName[name]; e != nil {
		return reflect.New(e.kind).Interface()
	}
	return nil
}

// Names lists the registered wire names with their current version, sorted.
func (r *Registry) Names() []string {
	var names []string
	for n := range r.byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Version is the current version of a wire name; 0 when it is unknown.
func (r *Registry) Version(name string) int {
	if e := r.byName[name]; e != nil {
		return e.version
	}
	return 0
}

// NamesOf gives the wire names of events, for filters: NamesOf((*ContactCreated)(nil)).
func NamesOf(kinds ...Event) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i], _ = Default.Name(k)
	}
	return names
}
