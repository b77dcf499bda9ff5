package localpg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// systemBase is where clusters are created when the server's user cannot enter the directory. It is not below /var/tmp,
// where many systems delete old files one by one.
const systemBase = "/var/lib/ledgerline"

// account is the user that PostgreSQL runs as when this process is root; nil otherwise.
type account struct {
	name     string
	uid, gid int
}

// credential is nil for a nil account: the server then runs as this process's user.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// directory is the directory of a server.
type directory struct {
	root    string   // its path, symbolic links resolved
	account *account // nil unless this process is root
}

func (d directory) data() string         { return filepath.Join(d.root, "data") }
func (d directory) passwordFile() string { return filepath.Join(d.root, "password") }
func (d directory) logFile() string      { return filepath.Join(d.root, "postgres.log") }
func (d directory) lockFile() string     { return filepath.Join(d.root, "lock") }

// openDirectory creates the directory if it is missing and chooses the user that runs the server in it. base is where
// the cluster goes if that user cannot enter the directory.
func openDirectory(ctx context.Context, path, base string, progress func(string)) (directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	// Other users may enter the parents, since the server's user may be another one, but not the directory itself.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	// Only one process at a time, since the directory may be replaced by a link.
	parent, err := flock(filepath.Dir(path), os.O_RDONLY, syscall.LOCK_EX)
	if err != nil {
		return directory{}, err
	}
	defer func() { _ = parent.Close() }()
	// A link to a relocated directory that was deleted is removed, so that a new directory can be created.
	if target, err := os.Readlink(path); err == nil {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			progress(fmt.Sprintf("%s is missing, beginning anew", target))
			if err := os.Remove(path); err != nil {
				return directory{}, fmt.Errorf("localpg: %w", err)
			}
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	dir := directory{root: root}
	if os.Geteuid() == 0 {
		return dir.openAsRoot(ctx, path, base, progress)
	}
	if uid, ok := ownerOf(dir.data()); ok && uid != os.Geteuid() {
		return directory{}, fmt.Errorf("the database in %s belongs to user %s: start as root, as before, or choose another data directory",
			shortPath(path), userName(uid))
	}
	return dir, nil
}

// openAsRoot gives the directory to the server's user. If that user cannot enter it, the directory is relocated.
func (d directory) openAsRoot(ctx context.Context, path, base string, progress func(string)) (directory, error) {
	uid, exists := ownerOf(d.data())
	account, err := serverAccount(uid)
	if err != nil {
		return directory{}, err
	}
	d.account = account
	if err := os.Chown(d.root, account.uid, account.gid); err != nil {
		return directory{}, fmt.Errorf("localpg: give %s to user %s: %w", d.root, account.name, err)
	}
	entryErr := account.canEnter(ctx, d.root)
	if entryErr == nil {
		return d, nil
	}
	if exists {
		return directory{}, fmt.Errorf("user %s, the owner of the database in %s, cannot reach it: open its parent directories to others (chmod o+x): %w",
			account.name, shortPath(d.root), entryErr)
	}
	return d.relocate(ctx, path, base, progress)
}

// relocate replaces the empty directory by a symbolic link to a new directory below base.
func (d directory) relocate(ctx context.Context, path, base string, progress func(string)) (directory, error) {
	if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // the server's user must be able to enter it
		return directory{}, fmt.Errorf("localpg: user %s cannot reach %s, and no other directory can be created: %w", d.account.name, path, err)
	}
	_ = os.Chmod(base, 0o755) //nolint:gosec // the umask may have removed bits
	root, err := os.MkdirTemp(base, "dev-")
	if err != nil {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	if err := os.Chown(root, d.account.uid, d.account.gid); err != nil {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	if err := d.account.canEnter(ctx, root); err != nil {
		return directory{}, fmt.Errorf("localpg: user %s can reach neither %s nor %s: %w", d.account.name, path, root, err)
	}
	if err := syscall.Rmdir(path); err != nil { // not os.Remove, which would remove the link that another process has just created
		return directory{}, fmt.Errorf("localpg: %s is not empty, and user %s cannot reach it: %w", path, d.account.name, err)
	}
	if err := os.Symlink(root, path); err != nil {
		return directory{}, fmt.Errorf("localpg: %w", err)
	}
	progress(fmt.Sprintf("user %s cannot reach %s: the database is kept in %s", d.account.name, shortPath(path), root))
	return directory{root: root, account: d.account}, nil
}

// serverAccount returns the user that PostgreSQL runs as: owner, the user id of the cluster's owner, unless it is 0;
// else postgres, else nobody.
func serverAccount(owner int) (*account, error) {
	if owner > 0 {
		found, err := user.LookupId(strconv.Itoa(owner))
		if err == nil {
			return accountOf(found)
		}
		name := strconv.Itoa(owner)                              // the user was deleted, but the files still have its id
		return &account{name: name, uid: owner, gid: owner}, nil //nolint:nilerr // see above
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as: %w", err)
	}
	return accountOf(found)
}

func accountOf(found *user.User) (*account, error) {
	uid, uidErr := strconv.Atoi(found.Uid)
	gid, gidErr := strconv.Atoi(found.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("localpg: user %s: %w", found.Username, err)
	}
	return &account{name: found.Username, uid: uid, gid: gid}, nil
}

// canEnter returns nil if the user can enter a directory: it starts a process of that user there.
func (a *account) canEnter(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "true")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	return cmd.Run()
}

// ownerOf returns the user id of a file's owner; false when there is no file.
func ownerOf(path string) (int, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

func userName(uid int) string {
	if found, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return found.Username
	}
	return strconv.Itoa(uid)
}

// lock makes this process the owner of the directory until it closes the returned file or dies. It returns *InUseError
// when another process is the owner.
func (d directory) lock() (*os.File, error) {
	file, err := flock(d.lockFile(), os.O_RDWR|os.O_CREATE, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		content, _ := os.ReadFile(d.lockFile())
		pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
		return nil, &InUseError{Dir: d.root, PID: pid}
	}
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("localpg: lock %s: %w", d.root, err)
	}
	return file, nil
}

// flock opens a file or directory and locks it until it is closed.
func flock(path string, flags, how int) (*os.File, error) {
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("localpg: lock %s: %w", path, err)
	}
	return file, nil
}

// password reads the role's password.
func (d directory) password() (string, error) {
	content, err := os.ReadFile(d.passwordFile())
	if err != nil {
		return "", fmt.Errorf("localpg: the password of the database in %s: %w", shortPath(d.root), err)
	}
	return strings.TrimSpace(string(content)), nil
}

// newPassword creates the role's password and stores it in a file that only the server's user and root can read.
func (d directory) newPassword() (string, error) {
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	password := hex.EncodeToString(secret)
	if err := os.WriteFile(d.passwordFile(), []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("localpg: %w", err)
	}
	if d.account != nil {
		if err := os.Chown(d.passwordFile(), d.account.uid, d.account.gid); err != nil {
			return "", fmt.Errorf("localpg: %w", err)
		}
	}
	return password, nil
}
