package workflow

import (
	"time"

	"github.com/google/uuid"

	"ledgerline/domain/segment"
	"ledgerline/events"
)

// Version is a published version of a workflow, compiled. It never changes. The zero value does not exist.
type Version struct {
	ID           uuid.UUID
	WorkflowID   uuid.UUID
	Organisation uuid.UUID
	Workspace    uuid.UUID
	Number       int
	Plan         *Plan

	labels map[string]uuid.UUID // the labels that the version's names meant when it was published, by folded name
}

// Apply returns the state after one event of the version's stream.
func (v Version) Apply(event events.Event, in events.Envelope) Version {
	e, ok := event.(*events.WorkflowVersionCreated)
	if !ok {
		return v
	}
	v = Version{
		ID: e.VersionID, WorkflowID: e.WorkflowID, Organisation: in.Organisation, Workspace: in.Workspace, Number: e.Version,
		Plan: Compile(&Draft{e.Trigger, e.TriggerConfig, e.Graph}, e.TimeZone), labels: map[string]uuid.UUID{},
	}
	for _, l := range e.Labels {
		v.labels[l.Name] = l.LabelID
	}
	return v
}

// Exists reports whether there is such a version.
func (v Version) Exists() bool { return v.ID != uuid.Nil }

// LabelID returns the label that a name of the version meant when it was published; false when there was none. A label
// that was renamed since keeps its id.
func (v Version) LabelID(name string) (uuid.UUID, bool) {
	id, found := v.labels[segment.Fold(segment.Clean(name))]
	return id, found
}

// Compile returns the plan of a version, which passed the checks when it was published. timeZone is used where the
// trigger names none.
func Compile(d *Draft, timeZone string) *Plan {
	zone, err := time.LoadLocation(timeZone)
	if err != nil {
		zone = time.UTC
	}
	p, _ := Check(d, Environment{Zone: zone})
	return p
}
