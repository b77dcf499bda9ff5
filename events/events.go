// Package events defines the events of the ledger: one plain struct for each event, one file for each resource. The
// registry [Default] binds each struct to its wire name and version.
//
// A released version of an event is never edited, because stored events have its form: add a new version and an
// [Upcaster]. The files in testdata hold the form of every released version, and a test compares with them.
//
// The JSON fields of the struct are the facts. Personal data is in a separate struct, behind [Sealed]: the event store
// encrypts it under the key of its subject, and destroying that key erases it.
//
// The comment of an event says which stream it belongs to. Other events of the same resource belong to the same stream.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Event is a pointer to one of the registered structs.
type Event any

// Sealed is implemented by events with personal data.
type Sealed interface {
	// Subject is the subject whose key encrypts the data: usually the id of a contact.
	Subject() string
	// Personal returns a pointer to the struct that holds the data, for encoding and decoding.
	Personal() any
}

// Actor is the person or program that caused an event.
type Actor struct {
	Type string `json:"type"` // key, identity, user, contact, system or operator
	ID   string `json:"id,omitempty"`
}

// Envelope is what an aggregate can know about an event beside the event itself.
type Envelope struct {
	Organisation uuid.UUID
	Workspace    uuid.UUID // uuid.Nil for events of the organisation itself
	At           time.Time // when the event happened
}

// Upcaster turns the facts and the personal data (nil when there is none) of one version into those of the next.
type Upcaster func(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error)

// unchanged is the upcaster to a version that only adds fields, whose zero values mean what the version before meant.
func unchanged(facts, personal json.RawMessage) (json.RawMessage, json.RawMessage, error) {
	return facts, personal, nil
}

type entry struct {
	name      string
	version   int
	kind      reflect.Type
	upcasters map[int]Upcaster // from version
}

// Registry binds structs to wire names and versions. It does not change and is safe for concurrent use.
type Registry struct {
	byName map[string]*entry
	byKind map[reflect.Type]*entry
}

// Registration is one event of a registry.
type Registration struct{ entry }

// Define binds T to a wire name and its current version. upcasters lead from version 1 to 2, from 2 to 3 and so on;
// Define panics if one is missing.
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

// NewRegistry returns a registry. It panics on a name or struct that occurs twice.
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

// ErrUnknown says that an event has a type or a version that this version of the program does not know: a newer one
// wrote it.
var ErrUnknown = errors.New("events: not known to this version of the program")

// Name returns the wire name and current version of an event. It panics on a struct that is not registered.
func (r *Registry) Name(e Event) (name string, version int) {
	t := reflect.TypeOf(e)
	if t == nil || t.Kind() != reflect.Pointer || r.byKind[t.Elem()] == nil {
		panic(fmt.Sprintf("events: not registered: %T", e))
	}
	found := r.byKind[t.Elem()]
	return found.name, found.version
}

// Decode decodes an event from its facts and its decrypted personal data, which is empty after an erasure. Events of
// older versions are converted to the current one. An unknown name or a later version is an error.
func (r *Registry) Decode(name string, version int, facts, personal []byte) (Event, error) {
	e := r.byName[name]
	if e == nil {
		return nil, fmt.Errorf("%w: type %q", ErrUnknown, name)
	}
	if version < 1 || version > e.version {
		return nil, fmt.Errorf("%w: %s version %d (newest is %d)", ErrUnknown, name, version, e.version)
	}
	for v := version; v < e.version; v++ {
		var err error
		if facts, personal, err = e.upcasters[v](facts, personal); err != nil {
			return nil, fmt.Errorf("events: convert %s from version %d: %w", name, v, err)
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

// New returns an empty event of a wire name; nil when the name is unknown.
func (r *Registry) New(name string) Event {
	if e := r.byName[name]; e != nil {
		return reflect.New(e.kind).Interface()
	}
	return nil
}

// Names lists the registered wire names, sorted.
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

// NamesOf returns the wire names of events in the default registry: NamesOf((*ContactCreated)(nil)).
func NamesOf(kinds ...Event) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i], _ = Default.Name(k)
	}
	return names
}
