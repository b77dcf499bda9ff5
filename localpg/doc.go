// Package localpg runs a private PostgreSQL server for `ledgerline dev` and for the tests, as an ordinary user or as root,
// with the binaries that the machine has or, where it has none, with downloaded ones.
//
// A directory holds one database cluster and everything about it:
//
//	data/         the cluster
//	password      of the only role, 0600
//	postgres.log  what the server wrote, statements left out, since they may carry personal data
//	lock          held (flock) by the process that owns the server, which writes its id into it
//
// The server listens on 127.0.0.1 alone and asks for the password (scram-sha-256). It lives no longer than its owner:
// Stop ends it, and on Linux the kernel does when the owner is killed. Where the kernel does not, the next Start finds a
// server without an owner, ends it and starts its own.
//
// PostgreSQL refuses to run as root. Then initdb and the server run as the user that owns the cluster; a new one is given to
// `postgres`, or to `nobody` where that is missing. When that user cannot reach the directory (a checkout below root's
// private home), the cluster is put below /var/lib/ledgerline and the directory becomes a symbolic link to it.
package localpg
