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

// OpenAPI is the document of all routes, without a database behind them.
func OpenAPI(version, baseURL string) ([]byte, error) {
	api, err := httpapi.New(httpapi.Config{Version: version, BaseURL: baseURL, Authenticator: nobody{}, IdempotencyRecords: receipts{}})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	writeapi.Register(api, nil, nil, nil)
	readapi.Register(api, nil, nil)
	toolapi.Register(api, readapi.New(nil, nil), writeapi.NewForTools(nil, nil, nil))
	return api.OpenAPI()
}

// nobody lets nobody in.
type nobody struct{}

// Authenticate implements auth.Authenticator.
func (nobody) Authenticate(context.Context, auth.Credentials) (auth.Caller, error) {
	return auth.Caller{}, errors.New("service: these routes are documented, not served")
}
