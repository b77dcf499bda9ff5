package commands

import "ledgerline/domain/fault"

// issueList collects everything that is wrong with a request, so that it is reported together (rule API-10).
type issueList []fault.Issue

// add adds an issue of the request's body at a JSON pointer.
func (l *issueList) add(pointer, code, message string) {
	*l = append(*l, fault.Issue{Location: "body", Path: pointer, Code: code, Message: message})
}

// collect adds the issues of those errors that are validation_failed, and returns the first other error. nil errors are
// skipped.
func (l *issueList) collect(errs ...error) error {
	for _, err := range errs {
		switch {
		case err == nil:
		case fault.Is(err, fault.ValidationFailed):
			*l = append(*l, fault.Of(err).Issues...)
		default:
			return err
		}
	}
	return nil
}

// fault returns validation_failed with the collected issues; nil when there are none.
func (l issueList) fault() error {
	if len(l) == 0 {
		return nil
	}
	return fault.Invalids(l...)
}
