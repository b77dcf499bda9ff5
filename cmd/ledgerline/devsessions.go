package main

import (
	"fmt"
	"time"

	"ledgerline/clock"
	"ledgerline/httpapi/auth"
)

// Issuer and audience of the session tokens of a dev. They are the defaults of serve, too.
const (
	sessionIssuer   = "ledgerline"
	sessionAudience = "ledgerline"
)

// devSession is how long the sessions in dev.json are valid, by the clock of the dev, which may be moved by years.
const devSession = 50 * 365 * 24 * time.Hour

func devSessions(secret []byte, c clock.Clock) auth.SessionConfig {
	return auth.SessionConfig{Issuer: sessionIssuer, Audience: sessionAudience, Secret: secret, Clock: c, LongLivedTokenID: "dev.json"}
}

// writeFile writes dev.json with new sessions.
func (d *dev) writeFile() error {
	d.file.Sessions = make(map[string]string, len(d.file.Users))
	for role, user := range d.file.Users {
		token, err := auth.SignSession(devSessions(d.secret, d.clock), user, devSession)
		if err != nil {
			return fmt.Errorf("sign the session of %s: %w", role, err)
		}
		d.file.Sessions[role] = token
	}
	return d.file.write(d.dir)
}

// welcome prints how to use the dev.
func (d *dev) welcome() {
	curl := `curl -s "$LL_URL/v1/contacts" -H "authorization: Bearer $LL_KEY"`
	clockIs := "real, until POST /dev/clock moves it"
	if d.Clock != "" {
		clockIs = "stopped at " + d.clock.Now().Format("2006-01-02T15:04:05Z07:00") + ", until POST /dev/clock moves it"
	}
	d.con.say(`
Ledgerline is running.

  address      %s
  reference    %s/docs
  keys, ids    %s
  clock        %s

Try it from another terminal:

  eval "$(%s)"
  %s

Ctrl-C stops everything.
`, d.file.BaseURL, d.file.BaseURL, d.dir.devFile(), clockIs, d.envCommand(), curl)
}

// envCommand is the command line that prints the variables of this dev.
func (d *dev) envCommand() string {
	call := self() + " dev-env"
	if d.Data != "./.ledgerline" {
		call += " --data '" + d.Data + "'"
	}
	return call
}
