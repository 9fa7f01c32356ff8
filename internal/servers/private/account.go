package private

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// An account is the system user that a server's package came with.
type account struct {
	name     string
	uid, gid int
}

// lookUpAccount returns nil when this process is not root and so has no choice.
func lookUpAccount(name string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &account{name: name, uid: uid, gid: gid}, nil
}

// credential is what a child process needs to run as the account.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own hands a folder and all in it to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}

// canEnter fails when the account cannot reach what is in dir.
func (a *account) canEnter(dir string) error {
	if a == nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("user %s cannot enter %s: set TMPDIR to a folder that every user may enter", a.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
