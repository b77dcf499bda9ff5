package commands

import (
	"context"
	"encoding/base64"

	"ledgerline/events"
)

// carrierSecretBytes is the number of random bytes in the secret part of the address that a carrier reports to.
const carrierSecretBytes = 32

// ConfigureCarrier gives a line of the request's workspace to a carrier, with the account by which the carrier knows
// the line. The account is stored sealed. secret is part of the address that the carrier reports to: it is made with
// the first account, kept by later ones, and made anew with newSecret.
func (a *App) ConfigureCarrier(ctx context.Context, req Request, lineID, carrier string, account events.CarrierAccount, newSecret bool) (secret string, result Result, err error) {
	random := make([]byte, carrierSecretBytes)
	if err := a.random(random); err != nil {
		return "", Result{}, err
	}
	made := base64.RawURLEncoding.EncodeToString(random)
	result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.loadLine(ctx, lineID)
		if err != nil {
			return err
		}
		account.Secret = l.State.Account.Secret
		if newSecret || account.Secret == "" {
			account.Secret = made
		}
		configured, err := l.State.ConfigureCarrier(carrier, account)
		l.Record(configured...)
		u.Ref, secret = lineID, l.State.Account.Secret
		return err
	})
	return secret, result, err
}
