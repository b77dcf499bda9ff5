package localpg

import (
	"errors"
	"fmt"
)

// ErrNoPostgres means that no usable binaries were found and none could be downloaded.
var ErrNoPostgres = errors.New("no PostgreSQL of version 14 or newer was found")

// InUseError refuses a start: another process owns the server of this directory.
type InUseError struct {
	Dir string
	PID int // of the owner; 0 when it is not known yet
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("the database in %s is in use by process %d: stop that one, or choose another data directory",
		shortPath(e.Dir), e.PID)
}

// PortTakenError refuses a start: something else listens on the port.
type PortTakenError struct{ Port int }

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is taken by another program: stop that one, or choose another port", e.Port)
}

// VersionError refuses a start: this machine has no binaries of the major version that created the cluster.
type VersionError struct {
	Dir       string
	Data      string // major version of the cluster
	Installed string // versions found, "" when none
}

func (e *VersionError) Error() string {
	found := "no other PostgreSQL was found"
	if e.Installed != "" {
		found = "only PostgreSQL " + e.Installed + " was found"
	}
	return fmt.Sprintf("the database in %s was made by PostgreSQL %s, and %s: install PostgreSQL %s, or remove the directory to begin anew",
		shortPath(e.Dir), e.Data, found, e.Data)
}
