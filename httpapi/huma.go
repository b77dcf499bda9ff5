package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"ledgerline/domain/fault"
	"ledgerline/httpapi/input"
)

// Huma builds its errors with functions in package variables. They are replaced once, before any endpoint is
// registered.
func init() { //nolint:gochecknoinits // the library has no other way to set them
	huma.NewErrorWithContext = func(ctx huma.Context, _ int, message string, problems ...error) huma.StatusError {
		return collect(ctx, message, problems)
	}
	huma.NewError = func(int, string, ...error) huma.StatusError { return &refusal{} }
}

// refusal is the error that Huma answers with: the shared shape of all errors.
type refusal struct {
	ErrorBody
}

func (*refusal) Error() string { return "the request is not valid" }

// GetStatus implements huma.StatusError: whatever Huma refuses is a bad request.
func (*refusal) GetStatus() int { return http.StatusBadRequest }

// collect joins the problems that Huma found with the issues that were found before.
func collect(ctx huma.Context, message string, problems []error) huma.StatusError {
	q, ok := ctx.(*request)
	if !ok {
		return &refusal{ErrorBody{ErrorInfo{Code: string(fault.BadRequest), Message: message}}}
	}
	for _, problem := range problems {
		issue := input.IssueOf(problem)
		if issue.Location == "body" && issue.Code == "" { // the body could not be decoded after it was checked
			if len(q.body.Issues) > 0 {
				continue // its issues are the reason
			}
			issue.Code, issue.Message = "invalid_type", "The body does not have the documented shape."
		}
		q.issues = append(q.issues, issue)
	}
	return &refusal{ErrorBody{errorInfo(q.invalid(), q.call.RequestID)}}
}
