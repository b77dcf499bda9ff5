package service

import (
	"context"
	"errors"

	"ledgerline/httpapi"
	"ledgerline/httpapi/auth"
	"ledgerline/readapi"
	"ledgerline/toolapi"
	"ledgerline/writeapi"
)

// OpenAPI returns the OpenAPI document of all routes, in JSON. It needs no database.
func OpenAPI(version, baseURL string) ([]byte, error) {
	api, err := httpapi.New(httpapi.Config{
		Version: version, BaseURL: baseURL, Documentation: documentation(), Authenticator: refuseAll{}, IdempotencyRecords: idempotencyRecords{},
	})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	writeapi.Register(api, nil, nil, writeapi.Outside{})
	readapi.Register(api, nil, nil)
	toolapi.Register(api, readapi.New(nil, nil), writeapi.NewForTools(nil, nil, writeapi.Outside{}))
	return api.OpenAPI()
}

// refuseAll is an auth.Authenticator that refuses every request.
type refuseAll struct{}

// Identify implements auth.Authenticator.
func (refuseAll) Identify(context.Context, auth.Credentials) (auth.Identity, error) {
	return auth.Identity{}, errors.New("service: these routes are documented, not served")
}

// Authenticate implements auth.Authenticator.
func (refuseAll) Authenticate(context.Context, auth.Credentials) (auth.Caller, error) {
	return auth.Caller{}, errors.New("service: these routes are documented, not served")
}
