// Package httpapi holds what all endpoints share: who may call, how a request is read and refused, how a write is
// answered once and for all, how lists are paged, and how everything is documented (interface, sections 5 and 7 to 9).
//
// An endpoint is a Route and a function that is typed in and typed out; it never sees gin or Huma. Every request to one
// passes these gates, in this order, and the first that refuses answers:
//
//  1. a request id is made, panics are caught, the request is logged, counted and, when configured, traced;
//  2. the caller is authenticated (401), and counted against its rate limit (429);
//  3. the route's Access is checked (403 forbidden) and, for writes, whether the organisation is paused (403 org_paused);
//  4. the body is read: too large (413), not JSON by its content type (415), not JSON at all (400 bad_request);
//  5. all problems of headers, path, query and body are reported together (400 validation_failed);
//  6. a write with an idempotency key runs at most once at a time on a node (409 idempotency_conflict);
//  7. the endpoint runs, and its faults become statuses by the one table in status.go.
//
// The package may import domain/fault, clock and libraries, nothing else of ours: what it needs from the rest of the
// service it asks for through Authenticator, Receipts and Limiter.
package httpapi
