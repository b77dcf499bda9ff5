// Package input reads requests and finds everything that is wrong with them: bodies as JSON, query parameters, texts.
// It sets the texts of Huma's validation messages, and converts the problems that Huma finds into issues with a code
// and a JSON pointer.
package input
