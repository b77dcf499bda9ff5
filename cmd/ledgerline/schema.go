package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"ledgerline/migrations"
	"ledgerline/service"
)

// migrateCommand migrates a database to the newest schema.
type migrateCommand struct {
	installation
}

// Run implements the command.
func (c *migrateCommand) Run(ctx context.Context, con *console) error {
	w := &workbench{con: con}
	defer w.Close()
	if err := c.waitForDev(ctx, con); err != nil {
		return err
	}
	dsn, err := w.database(ctx, &c.installation)
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		return err
	}
	names := migrations.Names()
	return con.print(map[string]any{"schema": names[len(names)-1]})
}

// keysCommand manages the file with the installation's secrets.
type keysCommand struct {
	Create keysCreateCommand `cmd:"" help:"Create a file with new secrets. Keep a copy: without it, personal data cannot be read any more."`
	Public keysPublicCommand `cmd:"" help:"Print the public key that verifies the signed tree heads of the ledger. Hand it to auditors."`
}

type keysCreateCommand struct {
	File string `arg:"" help:"The file; it must not exist."`
}

// Run implements the command.
func (c *keysCreateCommand) Run(con *console) error {
	err := makeKeys(c.File)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: secrets that are in use must not be replaced", c.File)
	}
	if err != nil {
		return err
	}
	return con.print(map[string]any{"keys_file": c.File})
}

type keysPublicCommand struct{ installation }

// Run implements the command.
func (c *keysPublicCommand) Run(con *console) error {
	keyring, err := c.keyring()
	if err != nil {
		return err
	}
	return con.print(map[string]any{"public_key": keyring.HeadKey()})
}

// openAPICommand prints the OpenAPI document.
type openAPICommand struct {
	BaseURL string `help:"URL of the server in the document." placeholder:"URL"`
}

// Run implements the command.
func (c *openAPICommand) Run(con *console) error {
	document, err := service.OpenAPI(version(), c.BaseURL)
	if err != nil {
		return err
	}
	if _, err := con.out.Write(append(document, '\n')); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}
