package commands

import "ledgerline/domain/fault"

// issueList collects everything that is wrong with a request, so that it is reported together (rule API-10).
type issueList []fault.Issue

// collect adds the issues of those errors that are validation_failed, and returns the first other error. nil errors are
// skipped.
func (l *issueList) collect(errs ...error) error {
	for _, err := range errs {
		if !fault.Is(err, fault.ValidationFailed) {
			if err != nil {
				return err
			}
			continue
		}
		*l = append(*l, fault.Of(err).Issues...)
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

// collect moves the issues of a validation fault into the list, and leaves other errors.
func collect(issues []fault.Issue, err error) ([]fault.Issue, error) {
	list := issueList(issues)
	err = list.collect(err)
	return list, err
}
