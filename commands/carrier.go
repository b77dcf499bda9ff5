package commands

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"ledgerline/events"
)

// secretBytes is how much chance is in the address that a carrier reports to.
const secretBytes = 32

// ConfigureCarrier gives a line of the request's workspace to a carrier, with the account that it is reached with. The
// secret in the address that the carrier reports to is made here: once, and anew with fresh. The account is sealed; the
// answer is the line's id and the secret.
func (a *App) ConfigureCarrier(ctx context.Context, req Request, lineID, carrier string, account events.CarrierAccount, fresh bool) (secret string, result Result, err error) {
	random := make([]byte, secretBytes)
	if _, err := io.ReadFull(a.engine.Random, random); err != nil {
		return "", Result{}, fmt.Errorf("commands: no randomness: %w", err)
	}
	made := base64.RawURLEncoding.EncodeToString(random)
	result, err = a.run(ctx, req, func(ctx context.Context, u *unit) error {
		l, err := u.line(ctx, lineID)
		if err != nil {
			return err
		}
		account.Secret = l.State.Account.Secret
		if fresh || account.Secret == "" {
			account.Secret = made
		}
		configured, err := l.State.ConfigureCarrier(carrier, account)
		l.Record(configured...)
		u.Ref, secret = lineID, l.State.Account.Secret
		return err
	})
	return secret, result, err
}
