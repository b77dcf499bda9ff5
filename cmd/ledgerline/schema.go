package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ledgerline/eventstore"
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
	Rotate keysRotateCommand `cmd:"" help:"Add a new key to the file, which encrypts the keys of personal data from now on. Give the file to every node and restart the nodes; then run keys finish-rotation."`
	Finish keysFinishCommand `cmd:"" name:"finish-rotation" help:"Encrypt the stored keys of personal data with the newest key of the file, and remove the older keys from the file. Backups of the database from before need a copy of the older file."`
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

type keysRotateCommand struct {
	File string `arg:"" help:"The file."`
}

// Run implements the command.
func (c *keysRotateCommand) Run(con *console) error {
	if err := changeKeys(c.File, eventstore.RotateSubjectKeys); err != nil {
		return err
	}
	return con.print(map[string]any{"keys_file": c.File})
}

type keysFinishCommand struct{ installation }

// Run implements the command.
func (c *keysFinishCommand) Run(ctx context.Context, con *console) error {
	w, err := c.open(ctx, con, service.Roles{})
	if err != nil {
		return err
	}
	defer w.Close()
	rewrapped, err := w.Ledger.RewrapKeys(ctx)
	if err != nil {
		return err
	}
	path := c.keysFile()
	if err := changeKeys(path, eventstore.DropOldSubjectKeys); err != nil {
		return err
	}
	return con.print(map[string]any{"keys_file": path, "keys_encrypted_again": rewrapped})
}

// changeKeys replaces the text of a file with secrets, atomically.
func changeKeys(path string, change func([]byte) ([]byte, error)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	if text, err = change(text); err != nil {
		return err
	}
	return replaceSecret(path, text)
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
