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
	// maxOpenRequests is how many requests of a workspace may be open (rule LIN-40).
	maxOpenRequests = 5
	maxCount        = 50
	maxAreaCodes    = 10
	maxAreaCode     = 10   // characters
	maxNote         = 1000 // characters
)

// RequestsStream returns the name of the stream of a workspace's requests for lines.
func RequestsStream(workspace uuid.UUID) string { return events.Stream("lrq", workspace) }

// Request is an open request for lines (rule LIN-40).
type Request struct {
	ID      uuid.UUID
	Count   int
	PoolID  *string
	Started bool     // it is in_progress (rule LIN-41)
	LineIDs []string // the lines provisioned for it so far
}

// Requests are the open requests for lines of one workspace, oldest first.
type Requests struct{ Open []Request }

// Apply returns the state after one event of the stream.
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

// Find returns an open request. It refuses with not_found if there is none, also if the request is closed.
func (r Requests) Find(id uuid.UUID) (Request, error) {
	for _, o := range r.Open {
		if o.ID == id {
			return o, nil
		}
	}
	return Request{}, fault.New(fault.NotFound, "There is no such open request.")
}

// CheckRequest refuses with validation_failed a request whose fields break rule LIN-40.
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

// Add opens a request for lines. It refuses with validation_failed what CheckRequest refuses, and a sixth open
// request with conflict (rule LIN-40).
func (r Requests) Add(e events.LineRequestMade) ([]events.Event, error) {
	if err := CheckRequest(&e); err != nil {
		return nil, err
	}
	if len(r.Open) >= maxOpenRequests {
		return nil, fault.New(fault.Conflict, "A workspace has at most %d open requests for lines.", maxOpenRequests)
	}
	return []events.Event{&e}, nil
}

// Start marks an open request as in progress (rule LIN-41); no event if it is already. A request that is not open is
// not_found.
func (r Requests) Start(id uuid.UUID) ([]events.Event, error) {
	o, err := r.Find(id)
	if err != nil || o.Started {
		return nil, err
	}
	return []events.Event{&events.LineRequestStarted{RequestID: id}}, nil
}

// AddLine records a line that was provisioned for an open request. The first line starts the request, the last one
// fulfils it (rule LIN-41). A request that is not open is not_found.
func (r Requests) AddLine(id uuid.UUID, lineID string) ([]events.Event, error) {
	list, err := r.Start(id)
	if err != nil {
		return nil, err
	}
	o, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	list = append(list, &events.LineRequestServed{RequestID: id, LineID: lineID})
	if len(o.LineIDs)+1 >= o.Count {
		list = append(list, &events.LineRequestFulfilled{RequestID: id})
	}
	return list, nil
}

// Fulfil closes an open request as fulfilled, however many lines it got. A request that is not open is not_found.
func (r Requests) Fulfil(id uuid.UUID) ([]events.Event, error) {
	if _, err := r.Find(id); err != nil {
		return nil, err
	}
	return []events.Event{&events.LineRequestFulfilled{RequestID: id}}, nil
}

// Cancel closes an open request that will not be fulfilled. A request that is not open is not_found, a reason over
// 500 characters validation_failed.
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
