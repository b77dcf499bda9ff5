// Package auth defines who may call the API: the caller of a request, the scopes of API keys, the roles and permissions
// of signed-in users, the access rule of a route, and the verification of session tokens.
//
// Where callers are looked up is not decided here: the service passes an Authenticator to httpapi.
package auth
