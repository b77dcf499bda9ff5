// Package llm calls language models over the chat completions wire of OpenAI, which many servers speak. It logs
// nothing, and its errors contain neither the key nor any text of a conversation.
package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"ledgerline/processes/agents"
)

// Config configures a Client. URL is required.
type Config struct {
	URL   string // base URL, to which /chat/completions is added
	Key   string // bearer token; "": none
	Model string // for agents that name no model
}

// Client implements agents.Model.
type Client struct {
	client *openai.Client
	model  string
}

var _ agents.Model = (*Client)(nil)

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 4 << 20

// New makes a client. It refuses a URL that is not http or https.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("llm: the URL of the model endpoint must begin with http:// or https://")
	}
	wire := openai.DefaultConfig(cfg.Key)
	wire.BaseURL = strings.TrimSuffix(cfg.URL, "/")
	wire.HTTPClient = &http.Client{
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 100, MaxIdleConnsPerHost: 64,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		}},
		// Following a redirect could send the key and the conversation elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{openai.NewClientWithConfig(wire), cfg.Model}, nil
}

// bounded reads at most maxAnswer bytes of an answer.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the http package adds the URL
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}

// Complete implements agents.Model.
func (c *Client) Complete(ctx context.Context, p *agents.Prompt) (agents.Completion, error) {
	request := openai.ChatCompletionRequest{Model: p.Model, Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleSystem, Content: p.System}}}
	if request.Model == "" {
		request.Model = c.model
	}
	for _, t := range p.Turns {
		role := openai.ChatMessageRoleAssistant
		if t.Inbound {
			role = openai.ChatMessageRoleUser
		}
		request.Messages = append(request.Messages, openai.ChatCompletionMessage{Role: role, Content: t.Text})
	}
	for _, t := range p.Tools {
		request.Tools = append(request.Tools, openai.Tool{
			Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: t.Parameters},
		})
	}
	answer, err := c.client.CreateChatCompletion(ctx, request)
	if err != nil {
		return agents.Completion{}, withoutTexts(err)
	}
	if len(answer.Choices) == 0 {
		return agents.Completion{}, errors.New("llm: the answer has no choice")
	}
	m := &answer.Choices[0].Message
	completion := agents.Completion{Text: m.Content}
	for i := range m.ToolCalls {
		completion.Calls = append(completion.Calls, agents.ToolCall{Name: m.ToolCalls[i].Function.Name, Arguments: m.ToolCalls[i].Function.Arguments})
	}
	return completion, nil
}

// withoutTexts replaces an error of the library, which may repeat what was sent or received, by one that does not.
func withoutTexts(err error) error {
	status := 0
	var refused *openai.APIError
	var failed *openai.RequestError
	switch {
	case errors.As(err, &refused):
		status = refused.HTTPStatusCode
	case errors.As(err, &failed):
		status = failed.HTTPStatusCode
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return fmt.Errorf("%w: status %d", agents.ErrRefused, status)
	case status != 0:
		return fmt.Errorf("llm: status %d", status)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("llm: no answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("llm: %w", context.Canceled)
	}
	return errors.New("llm: the endpoint cannot be reached, or its answer cannot be read")
}
