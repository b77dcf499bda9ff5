package line

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"ledgerline/domain/fault"
	"ledgerline/events"
)

const (
	// maxOpen is how many requests of a workspace may be open (administration 3.4).
	maxOpenRequests = 5
	maxCount        = 50
	maxAreaCodes    = 10
	maxAreaCode     = 10   // characters
	maxNote         = 1000 // characters
)

// RequestsStream names the stream of a workspace's requests for lines.
func RequestsStream(workspace uuid.UUID) string { return events.Stream("lrq", workspace) }

// Request is a request that is open.
type Request struct {
	ID      uuid.UUID
	Count   int
	PoolID  *string
	Started bool
	LineIDs []string // provisioned for it so far
}

// Requests are the open requests of one workspace, oldest first.
type Requests struct{ Open []Request }

// Apply folds one event.
func (r Requests) Apply(event events.Event, _ events.Envelope) Requests {
	change := func(id uuid.UUID, do func(*Request)) Requests {
		open := slices.Clone(r.Open)
		for i := range open {
			if open[i].ID == id {
				do(&open[i])
			}
		}
		return Requests{open}
	}
	without := func(id uuid.UUID) Requests {
		return Requests{slices.DeleteFunc(slices.Clone(r.Open), func(o Request) bool { return o.ID == id })}
	}
	switch e := event.(type) {
	case *events.LineRequestMade:
		return Requests{append(slices.Clone(r.Open), Request{ID: e.RequestID, Count: e.Count, PoolID: e.PoolID})}
	case *events.LineRequestStarted:
		return change(e.RequestID, func(o *Request) { o.Started = true })
	case *events.LineRequestServed:
		return change(e.RequestID, func(o *Request) { o.LineIDs = append(slices.Clone(o.LineIDs), e.LineID) })
	case *events.LineRequestFulfilled:
		return without(e.RequestID)
	case *events.LineRequestCancelled:
		return without(e.RequestID)
	}
	return r
}

// Find gives an open request; not_found when there is none, also when it is closed.
func (r Requests) Find(id uuid.UUID) (Request, error) {
	for _, o := range r.Open {
		if o.ID == id {
			return o, nil
		}
	}
	return Request{}, fault.New(fault.NotFound, "There is no such open request.")
}

// CheckRequest tells what is wrong with a request by itself.
func CheckRequest(e *events.LineRequestMade) error {
	var issues []fault.Issue
	wrong := func(pointer, code, text string) {
		issues = append(issues, fault.Issue{Location: "body", Path: pointer, Code: code, Message: text})
	}
	if e.Count < 1 || e.Count > maxCount {
		wrong("/count", "out_of_range", "Between 1 and 50 lines can be requested.")
	}
	if len(e.AreaCodes) > maxAreaCodes {
		wrong("/area_codes", "too_many", "At most 10 area codes can be named.")
	}
	for i, code := range e.AreaCodes {
		if n := utf8.RuneCountInString(code); n == 0 || n > maxAreaCode {
			wrong(fmt.Sprintf("/area_codes/%d", i), "invalid_value", "This is not an area code.")
		}
	}
	if e.Note != nil && utf8.RuneCountInString(*e.Note) > maxNote {
		wrong("/note", "too_long", "The note is too long.")
	}
	if len(issues) > 0 {
		return fault.Invalids(issues...)
	}
	return nil
}

// Add asks for lines. A sixth open request is refused with conflict.
func (r Requests) Add(e events.LineRequestMade) ([]events.Event, error) {
	if err := CheckRequest(&e); err != nil {
		return nil, err
	}
	if len(r.Open) >= maxOpenRequests {
		return nil, fault.New(fault.Conflict, "A workspace has at most %d open requests for lines.", maxOpenRequests)
	}
	return []events.Event{&e}, nil
}

// Start tells that the operator is at it; once.
func (r Requests) Start(id uuid.UUID) ([]events.Event, error) {
	o, err := r.Find(id)
	if err != nil || o.Started {
		return nil, err
	}
	return []events.Event{&events.LineRequestStarted{RequestID: id}}, nil
}

// AddLine counts a line that was provisioned for the request, which it starts, and closes with the last line.
func (r Requests) AddLine(id uuid.UUID, lineID string) ([]events.Event, error) {
	told, err := r.Start(id)
	if err != nil {
		return nil, err
	}
	o, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	told = append(told, &events.LineRequestServed{RequestID: id, LineID: lineID})
	if len(o.LineIDs)+1 >= o.Count {
		told = append(told, &events.LineRequestFulfilled{RequestID: id})
	}
	return told, nil
}

// Fulfil closes a request as met, however many lines it got.
func (r Requests) Fulfil(id uuid.UUID) ([]events.Event, error) {
	if _, err := r.Find(id); err != nil {
		return nil, err
	}
	return []events.Event{&events.LineRequestFulfilled{RequestID: id}}, nil
}

// Cancel closes a request that will not be met.
func (r Requests) Cancel(id uuid.UUID, reason *string) ([]events.Event, error) {
	if _, err := r.Find(id); err != nil {
		return nil, err
	}
	if reason != nil {
		if err := checkReason(*reason); err != nil {
			return nil, err
		}
	}
	return []events.Event{&events.LineRequestCancelled{RequestID: id, Reason: reason}}, nil
}
