// Package localpg runs a private PostgreSQL server for `ledgerline dev` and for tests. It works for an ordinary user
// and for root, with the PostgreSQL that is installed or, if there is none, with a downloaded one.
//
// # The directory
//
// A directory holds one database cluster and everything about it:
//
//	data/         the cluster
//	password      of the only role, mode 0600
//	postgres.log  the server's log, without statements, which may contain personal data
//	lock          locked (flock) by the process that owns the server; contains its process id
//
// The server listens on 127.0.0.1 only and requires the password (scram-sha-256).
//
// # Lifetime
//
// The process that holds the lock owns the server. The server does not outlive its owner: Stop ends it, and on Linux
// the kernel ends it when the owner is killed. On other systems a server whose owner was killed keeps running until the
// next Start on its directory, which ends it and starts its own.
//
// # Root
//
// PostgreSQL refuses to run as root. When this process is root, initdb and the server run as the user that owns the
// cluster; a new cluster belongs to the user postgres or, if that does not exist, nobody. If that user cannot enter the
// directory, for example because it is below root's private home, the cluster is created below /var/lib/ledgerline and
// the directory becomes a symbolic link to it, so that removing the link still starts over with an empty database.
package localpg
