package writeapi

import (
	"encoding/json"
	"errors"

	"ledgerline/commands"
	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
)

// request describes the caller and its request to a command.
func request(c *httpapi.Call) commands.Request {
	r := commands.Request{
		Organisation: c.OrganisationID, Workspace: c.WorkspaceID, Actor: actor(c), RequestID: c.RequestID,
		UserAgent: c.UserAgent, Test: c.Test,
	}
	if c.IP.IsValid() {
		r.IP = c.IP.String()
	}
	for _, g := range c.Guards {
		r.Guards = append(r.Guards, commands.Guard(g))
	}
	if i := c.Idempotency; i != nil {
		r.Idempotency = &commands.IdempotencyRecord{
			Workspace: c.KeyScope(), Key: i.Key, Actor: c.Caller.Actor(), Fingerprint: i.Fingerprint, Status: i.Status,
		}
	}
	return r
}

func actor(c *httpapi.Call) commands.Actor {
	if c.Kind == auth.KindSession {
		return commands.Actor{Type: "user", ID: c.ID}
	}
	return commands.Actor{Type: string(c.Kind), ID: c.ID}
}

// result converts a command's result for httpapi. The answer's body comes from the endpoint's view.
func result(r commands.Result, err error) (httpapi.WriteResult, error) {
	if err != nil {
		return httpapi.WriteResult{}, translate(err)
	}
	return httpapi.WriteResult{Ref: r.Ref, Shard: r.Shard, Position: r.Position}, nil
}

// resultWithBody is result for a command whose answer is known without a read model: body renders what it made. If the
// request has an idempotency key, the command must have stored the same body with its record: see recordedBody.
func resultWithBody[Made, Body any](
	c *httpapi.Call, r commands.Result, made Made, body func(Made) Body, err error,
) (httpapi.WriteResult, error) {
	w, err := result(r, err)
	if err == nil {
		w.Body, w.BodyStored = body(made), c.Idempotency != nil
	}
	return w, err
}

// recordedBody returns what a command needs to store its answer in the idempotency record: a function that renders the
// body. It returns nil when the request has no idempotency key.
func recordedBody[Made, Body any](c *httpapi.Call, body func(Made) Body) func(Made) ([]byte, error) {
	if c.Idempotency == nil {
		return nil
	}
	return func(made Made) ([]byte, error) { return json.Marshal(body(made)) }
}

// translate replaces the errors of commands that httpapi reacts to by its own.
func translate(err error) error {
	exists := (*commands.IdempotencyRecordExists)(nil)
	switch {
	case errors.Is(err, commands.ErrCredentialChanged):
		return errors.Join(auth.ErrCredentialChanged, err)
	case errors.As(err, &exists):
		return errors.Join(httpapi.ErrIdempotencyKeyUsed, err)
	}
	return err
}
