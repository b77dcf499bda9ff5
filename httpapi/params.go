package httpapi

import "github.com/google/uuid"

// PageParams are the query parameters of every paged list (rule API-21). Embed it.
type PageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many at most"`
	Cursor string `query:"cursor" maxLength:"512" doc:"next_cursor of the page before"`
}

// IDParam is the path parameter of a resource with prefixed ids. The schema demands no format: a malformed id is an id
// that does not exist, and the endpoint answers 404. Embed it.
type IDParam struct {
	ID string `path:"id"`
}

// UUIDParam is the path parameter of a resource whose ids are UUIDs. Any other form is 400 validation_failed at path
// /id. Embed it.
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

// Deleted is the answer to a deletion.
type Deleted struct {
	Deleted bool   `json:"deleted" enum:"true"`
	ID      string `json:"id"`
}
