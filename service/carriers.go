package service

import (
	"context"

	"github.com/gin-gonic/gin"

	"ledgerline/adapters/bluebubbles"
	"ledgerline/adapters/simulator"
	"ledgerline/adapters/twilio"
	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/line"
	"ledgerline/processes"
	"ledgerline/projections"
)

// SimulatorCarrier is the carrier name of lines that the simulator serves.
const SimulatorCarrier = line.Simulator

// openCarriers makes all carriers, on every node that may use one: to send, to look numbers up, or to receive the
// reports of carriers. Polling and scripts run on nodes with the role process only.
func (n *Node) openCarriers(run context.Context) (err error) {
	roles := n.cfg.Roles
	if !roles.Write && !roles.Read && !roles.Process {
		return nil
	}
	inbox, aead := processes.NewInbox(n.App), n.Ledger.Keyring().AEAD()
	if n.Simulator, err = simulator.Open(simulator.Config{
		Pool: n.pool, Clock: n.Clock, AEAD: aead, Inbox: inbox, Logger: n.cfg.Logger, Passive: !roles.Process,
	}); err != nil {
		return err
	}
	if n.bubbles, err = bluebubbles.New(bluebubbles.Config{
		Pool: n.pool, Lines: accounts{n.App, n.Store}, AEAD: aead, Inbox: inbox, BaseURL: n.cfg.BaseURL, InsideMedia: n.cfg.Inside, Logger: n.cfg.Logger,
	}); err != nil {
		return err
	}
	if n.sms, err = twilio.New(twilio.Config{
		Pool: n.pool, Accounts: processes.SMSAccounts{App: n.App}, AEAD: aead, Inbox: inbox, URL: n.cfg.SMS.URL, BaseURL: n.cfg.BaseURL,
		Inside: n.cfg.Inside || n.cfg.SMS.URL != "", Logger: n.cfg.Logger, Calls: n.cfg.SMS.Calls, CallTimeout: n.cfg.SMS.CallTimeout,
		AcceptWindow: n.cfg.SMS.AcceptWindow, Pause: n.cfg.SMS.Pause,
	}); err != nil {
		return err
	}
	n.carriers = processes.Carriers{line.Simulator: n.Simulator, line.BlueBubbles: n.bubbles}
	if n.cfg.Carriers != nil {
		n.cfg.Carriers(n.carriers)
	}
	if roles.Process {
		n.run(run, "bluebubbles", n.bubbles.Run)
		n.run(run, "sms callbacks", n.sms.Run)
	}
	return nil
}

// carriersPath begins the paths of the routes of serveCarriers.
const carriersPath = "/carriers/"

// serveCarriers adds the routes to which carriers report and from which attachments are downloaded. They need no API
// key: the addresses contain a secret.
func (n *Node) serveCarriers() {
	routes := n.API.Engine().Group(carriersPath+"bluebubbles/:line", n.API.LimitAddress)
	notFound := fault.New(fault.NotFound, "There is nothing here.")
	if n.cfg.Roles.Write {
		routes.POST("/:secret", func(c *gin.Context) {
			if !n.bubbles.ServeReport(c.Writer, c.Request, c.Param("line"), c.Param("secret")) {
				n.API.Refuse(c, notFound)
			}
		})
	}
	n.serveSMS()
	if n.cfg.Roles.Read {
		routes.GET("/media/:token", func(c *gin.Context) {
			if !n.bubbles.ServeMedia(c.Writer, c.Request, c.Param("line"), c.Param("token")) {
				n.API.Refuse(c, notFound)
			}
		})
	}
}

// serveSMS adds the routes to which the SMS provider reports, and from which attachments are downloaded. Reports are
// signed.
func (n *Node) serveSMS() {
	routes := n.API.Engine().Group(carriersPath + "sms/:connection")
	if n.cfg.Roles.Write {
		routes.POST("", func(c *gin.Context) {
			// The provider reports all messages from a few addresses, so only reports without its signature are counted.
			n.sms.ServeReport(c.Writer, c.Request, c.Param("connection"), func() bool { n.API.LimitAddress(c); return !c.IsAborted() })
		})
	}
	if n.cfg.Roles.Read {
		routes.GET("/media/:token", n.API.LimitAddress, func(c *gin.Context) {
			if !n.sms.ServeMedia(c.Writer, c.Request, c.Param("connection"), c.Param("token")) {
				n.API.Refuse(c, fault.New(fault.NotFound, "There is nothing here."))
			}
		})
	}
}

// accounts implements bluebubbles.Lines by the ledger.
type accounts struct {
	app   *commands.App
	store *projections.Store
}

// Account implements bluebubbles.Lines.
func (a accounts) Account(ctx context.Context, lineID string) (bluebubbles.Account, error) {
	l, err := a.app.FindLine(ctx, lineID)
	switch {
	case fault.Is(err, fault.NotFound):
		return bluebubbles.Account{}, bluebubbles.ErrNoAccount
	case err != nil:
		return bluebubbles.Account{}, err
	case l.Carrier != line.BlueBubbles || l.State == line.Retired || l.Account.URL == "":
		return bluebubbles.Account{}, bluebubbles.ErrNoAccount
	}
	return bluebubbles.Account{
		LineID: l.ID, Phone: l.Phone, URL: l.Account.URL, Password: l.Account.Password, Secret: l.Account.Secret,
		PrivateAPI: l.Account.Method == line.PrivateAPI,
	}, nil
}

// Lines implements bluebubbles.Lines.
func (a accounts) Lines(ctx context.Context) ([]string, error) {
	return a.store.LinesOfCarrier(ctx, line.BlueBubbles)
}
