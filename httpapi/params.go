package httpapi

import "github.com/google/uuid"

// PageParams are the query of every paged list: PAGE of the interface's notation. Embed it.
type PageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many at most"`
	Cursor string `query:"cursor" maxLength:"512" doc:"next_cursor of the page before"`
}

// IDParam is the path id of a resource with prefixed ids. An id that has not the form is an id that does not exist:
// the endpoint answers 404 for it, because the contract demands no format here, and a client that mixes up two ids is
// helped by "no such contact" either way. Embed it.
type IDParam struct {
	ID string `path:"id"`
}

// UUIDParam is the path id of a resource whose ids are UUIDs, which the contract demands: another form is 400
// validation_failed at path /id. Embed it.
type UUIDParam struct {
	ID uuid.UUID `path:"id"`
}

// Page is the answer of a paged list.
type Page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor" doc:"null on the last page"`
}

// List is the answer of a list without pages.
type List[T any] struct {
	Data []T `json:"data"`
}

// Deleted is the answer to most deletions.
type Deleted struct {
	Deleted bool   `json:"deleted" enum:"true"`
	ID      string `json:"id"`
}
