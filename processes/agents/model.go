package agents

import (
	"context"
	"errors"
)

// Model answers conversations. Implementations are safe for concurrent use, and log neither what they are asked nor
// what they answer.
type Model interface {
	// Complete answers a conversation. The context bounds the call. An error that wraps ErrRefused is not worth another
	// call.
	Complete(ctx context.Context, prompt *Prompt) (Completion, error)
}

// ErrRefused says that the model's endpoint refuses the credential, or does not know the model.
var ErrRefused = errors.New("agents: the model endpoint refuses the call")

// Prompt is everything that a model sees (rule AGT-16).
type Prompt struct {
	Model  string // "": the adapter's default
	System string // the agent's instructions, the fixed rules, and the contact's first name
	Turns  []Turn // the newest messages of the conversation, oldest first
	Tools  []Tool
}

// Turn is one message of a conversation.
type Turn struct {
	Inbound bool // written by the contact
	Text    string
}

// Tool is something that a model may do besides answering.
type Tool struct {
	Name, Description string
	Parameters        map[string]any // JSON schema of the arguments
}

// Completion is what a model answered.
type Completion struct {
	Text  string
	Calls []ToolCall
}

// ToolCall is the use of a tool.
type ToolCall struct {
	Name      string
	Arguments string // JSON
}
