package processes

import (
	"context"
	"errors"
	"fmt"

	"ledgerline/commands"
	"ledgerline/domain/fault"
	"ledgerline/domain/smsconnection"
	"ledgerline/processes/carrier"
)

// SMS implements commands.SMSProvider by an SMS provider.
type SMS struct{ Provider carrier.SMSProvider }

var _ commands.SMSProvider = SMS{}

// Verify implements commands.SMSProvider.
func (s SMS) Verify(ctx context.Context, c *smsconnection.Connection, inbound bool) string {
	err := s.Provider.Verify(ctx, smsAccount(c), inbound)
	if problem := (*carrier.SMSProblem)(nil); errors.As(err, &problem) {
		return problem.Text
	}
	if err != nil {
		return "The provider could not be asked."
	}
	return ""
}

// SendText implements commands.SMSProvider.
func (s SMS) SendText(ctx context.Context, c *smsconnection.Connection, from, to, body string) (commands.SMSText, error) {
	text, err := s.Provider.SendText(ctx, smsAccount(c), from, to, body)
	rejected := (*carrier.Rejected)(nil)
	switch {
	case errors.As(err, &rejected):
		return commands.SMSText{}, &commands.SMSRefused{Code: rejected.Code}
	case errors.Is(err, carrier.ErrTransient):
		return commands.SMSText{}, fmt.Errorf("%w: %w", commands.ErrSMSNotReached, err)
	}
	return commands.SMSText(text), err
}

// SMSAccounts implements carrier.SMSAccounts by the ledger.
type SMSAccounts struct{ App *commands.App }

var _ carrier.SMSAccounts = SMSAccounts{}

// Account implements carrier.SMSAccounts.
func (a SMSAccounts) Account(ctx context.Context, connectionID string) (carrier.SMSAccount, error) {
	return a.account(ctx, connectionID, true)
}

// Cached implements carrier.SMSAccounts.
func (a SMSAccounts) Cached(ctx context.Context, connectionID string) (carrier.SMSAccount, error) {
	return a.account(ctx, connectionID, false)
}

func (a SMSAccounts) account(ctx context.Context, connectionID string, fresh bool) (carrier.SMSAccount, error) {
	c, err := a.App.FindSMSConnection(ctx, connectionID, fresh)
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && !c.Exists():
		return carrier.SMSAccount{}, carrier.ErrNoSMSAccount
	case err != nil:
		return carrier.SMSAccount{}, err
	}
	return smsAccount(&c), nil
}

func smsAccount(c *smsconnection.Connection) carrier.SMSAccount {
	return carrier.SMSAccount{
		ConnectionID: c.ID, AccountSID: c.AccountSID, AuthToken: c.AuthToken, MessagingServiceSID: c.MessagingServiceSID,
		FromNumbers: c.FromNumbers, Ready: c.Ready(),
	}
}
