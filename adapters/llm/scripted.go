package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"ledgerline/processes/agents"
)

// Scripted implements agents.Model without a model, for dev mode and tests. Words of the contact's newest message
// decide what it does (docs/answering-agents.md):
//
//	person  hands the conversation over
//	bye     says goodbye and finishes
//	fail    fails as a model that is overloaded
//	refuse  fails as a model that does not accept the key
//	empty   answers nothing, which is a failed call
//	slow    answers after SlowFor
//
// To anything else it answers with what it was asked.
type Scripted struct {
	SlowFor time.Duration // in real time; default 5 s
}

var _ agents.Model = Scripted{}

var errScripted = errors.New("llm: the scripted model was asked to fail")

// Complete implements agents.Model.
func (s Scripted) Complete(ctx context.Context, p *agents.Prompt) (agents.Completion, error) {
	asked := ""
	for _, t := range p.Turns {
		if t.Inbound {
			asked = t.Text
		}
	}
	said := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(asked), func(r rune) bool { return !unicode.IsLetter(r) }) {
		said[word] = true
	}
	switch {
	case said["fail"]:
		return agents.Completion{}, errScripted
	case said["refuse"]:
		return agents.Completion{}, fmt.Errorf("%w: the scripted model was asked to", agents.ErrRefused)
	case said["empty"]:
		return agents.Completion{}, nil
	case said["person"]:
		return agents.Completion{
			Text: "One moment, I am getting a person.", Calls: []agents.ToolCall{{Name: "handoff_to_human", Arguments: `{"reason":"The contact asked for a person."}`}},
		}, nil
	case said["bye"]:
		return agents.Completion{Text: "Goodbye!", Calls: []agents.ToolCall{{Name: "finish", Arguments: `{}`}}}, nil
	case said["slow"]:
		wait := s.SlowFor
		if wait == 0 {
			wait = 5 * time.Second
		}
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return agents.Completion{}, fmt.Errorf("llm: %w", ctx.Err())
		}
	}
	return agents.Completion{Text: fmt.Sprintf("You wrote: %q. This is a scripted answer.", asked)}, nil
}
