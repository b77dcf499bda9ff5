package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/domain/line"
	"ledgerline/events"
)

// carrierPassword is the environment variable with the password. There is no flag for it, because other users can read
// the arguments of a process.
const carrierPassword = "LEDGERLINE_CARRIER_PASSWORD"

type lineCarrierCommand struct {
	installation
	ID        string `arg:"" help:"The line's id, ln_…."`
	Carrier   string `help:"simulator or bluebubbles (default: ${default})." enum:"simulator,bluebubbles" default:"bluebubbles" placeholder:"NAME"`
	URL       string `name:"url" help:"Address of the BlueBubbles server. Default: unchanged." placeholder:"URL"`
	Method    string `help:"How that server sends: private-api, or apple-script where it is not installed. Default: unchanged, private-api for a new account." enum:"private-api,apple-script," default:"" placeholder:"NAME"`
	Simulated bool   `help:"Accept the simulator outside dev mode, although it sends to nobody."`
	NewSecret bool   `help:"Replace the secret in the address to which the server reports."`
}

// Help implements kong's detailed help.
func (c *lineCarrierCommand) Help() string {
	return "The server's password is read from " + carrierPassword + ", or from the first line of the standard input. It is stored encrypted."
}

// Run implements the command.
func (c *lineCarrierCommand) Run(ctx context.Context, con *console) error {
	if err := c.checkSimulator(c.Carrier, c.Simulated); err != nil {
		return err
	}
	account := events.CarrierAccount{URL: c.URL, Method: c.Method}
	if c.Carrier == line.BlueBubbles {
		var err error
		if account.Password, err = password(os.Stdin); err != nil {
			return err
		}
	}
	return c.do(ctx, con, func(w *workbench) (any, error) {
		req, err := w.request(ctx, c.ID, "line")
		if err != nil {
			return nil, err
		}
		secret, _, err := w.App.ConfigureCarrier(ctx, req, c.ID, c.Carrier, account, c.NewSecret)
		result := map[string]any{"line_id": c.ID, "carrier": c.Carrier}
		if c.Carrier == line.BlueBubbles {
			result["report_path"] = bluebubbles.ReportPath(c.ID, secret)
		}
		return result, err
	})
}

// checkSimulator refuses the simulator for a line outside dev mode unless it is accepted: its messages are shown as
// delivered, and nobody gets them (rule LIN-5).
func (i *installation) checkSimulator(carrier string, accepted bool) error {
	if carrier != line.Simulator || accepted || i.isDev() {
		return nil
	}
	return usage("the simulator sends to nobody and reports messages as delivered: name another carrier, or add --simulated if that is what you want")
}

// password reads the password from the environment, else from the first line of in.
func password(in io.Reader) (string, error) {
	if given, ok := os.LookupEnv(carrierPassword); ok {
		return given, nil
	}
	const longest = 1 << 10
	text, err := bufio.NewReader(io.LimitReader(in, longest)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", errors.New("the password could not be read from the standard input")
	}
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return "", usage("give the server's password in %s or on the standard input", carrierPassword)
	}
	return text, nil
}
