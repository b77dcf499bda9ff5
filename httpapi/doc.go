// Package httpapi holds what all endpoints share: how a request is checked and refused, how a write is answered once
// per idempotency key, how lists are paged, and how everything is documented. The rules are API-1 to API-37.
//
// An endpoint is a Route and a typed function; it never sees gin or Huma. Every request to an endpoint passes these
// steps, in this order, and the first one that refuses answers:
//
//  1. a request id is made, panics are caught, the request is logged, counted and, when configured, traced;
//  2. the token is checked without the database (401), the request counted against the limits of its caller and its
//     organisation (429), admitted to the work under way (429, 503), and the caller authenticated (401);
//  3. the route's Access is checked (403 forbidden), and for writes that the organisation is not paused (403
//     org_paused);
//  4. the body is read: too large (413), not JSON by its content type (415), not JSON at all (400 bad_request);
//  5. all problems of headers, path, query and body are reported together (400 validation_failed);
//  6. a write whose idempotency key is in use on this node is refused (409 idempotency_conflict);
//  7. the endpoint runs, and its faults become statuses by the one table in status.go.
//
// Callers and access are in the package auth, reading and checking requests in the package input. The packages import
// domain/fault, clock and libraries, nothing else of the service: what they need from it are the interfaces
// auth.Authenticator, IdempotencyRecords and Limiter.
package httpapi
