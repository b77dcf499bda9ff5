// Package auth defines who may call the API: the caller of a request, the scopes of API keys, the roles and permissions
// of signed-in users, the access rule of a route, and the verification of session tokens.
//
// The package does not look callers up. The service passes an Authenticator to httpapi for that.
package auth
