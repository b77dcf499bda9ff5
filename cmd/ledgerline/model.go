package main

import (
	"strings"

	"ledgerline/adapters/llm"
	"ledgerline/processes/agents"
)

// modelOptions name the language model of agents.
type modelOptions struct {
	URL   string `help:"Base URL of the model endpoint of agents, which speaks the chat completions wire of OpenAI, for example https://api.openai.com/v1. All nodes need it." env:"LEDGERLINE_LLM_URL" placeholder:"URL"`
	Key   string `help:"Key of the model endpoint, or @FILE with the key. Other users of the machine can read command lines: give the key in a file or in the environment." env:"LEDGERLINE_LLM_KEY" placeholder:"@FILE"`
	Model string `help:"Model of agents that name none." env:"LEDGERLINE_LLM_MODEL" placeholder:"NAME"`
}

// model returns nil when no endpoint is named.
func (o *modelOptions) model() (agents.Model, error) {
	if o.URL == "" {
		return nil, nil //nolint:nilnil // agents need no model before they are live
	}
	key := o.Key
	if file, named := strings.CutPrefix(key, "@"); named {
		secret, err := readSecret(file)
		if err != nil {
			return nil, err
		}
		key = strings.TrimSpace(string(secret))
	}
	model, err := llm.New(llm.Config{URL: o.URL, Key: key, Model: o.Model})
	if err != nil {
		return nil, usage("--llm-url: %s", err)
	}
	return model, nil
}
