package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// state is the state of a cluster on disk: a directory, and the lock file next to it, which its supervisor locks while it runs. The kernel
// releases the lock however the supervisor ends, so the state of a cluster never depends on a process id that may belong to another
// process.
type state struct {
	name string
	dir  string
	lock *os.File
}

// validName keeps names short: see checkSocketPath.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// runningError is the error for a cluster name whose supervisor is running.
type runningError struct {
	name string
	pid  int
}

func (e *runningError) Error() string {
	return fmt.Sprintf("cluster %q is running already (pid %d); stop it with: cluster down --name %s", e.name, e.pid, e.name)
}

// newState names the state of a cluster without touching the disk.
func newState(name string) (*state, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("invalid cluster name %q: 1 to 32 of a-z, 0-9 and -, a letter or digit at both ends", name)
	}
	root := os.Getenv("XDG_RUNTIME_DIR")
	if root == "" {
		root = os.TempDir()
	}
	return &state{name: name, dir: filepath.Join(root, fmt.Sprintf("app-operator-cluster-%d-%s", os.Getuid(), name))}, nil
}

// path names a file in the state's directory.
func (s *state) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// checkSocketPath checks that the directory's path is short enough for the paths of the sockets in it, which may have 103 bytes (Darwin;
// 107 on Linux).
func (s *state) checkSocketPath() error {
	if path := s.path(peerSocket); len(path) > 103 {
		return fmt.Errorf("the path %s is too long for a socket; set XDG_RUNTIME_DIR to a shorter one", path)
	}
	return nil
}

// claim takes the lock and makes the directory. If an earlier supervisor was killed before its cleanup, claim removes the remains, and
// returns stale=true. If a supervisor is running, the error is a *runningError.
func (s *state) claim() (stale bool, err error) {
	if err := s.acquire(os.O_CREATE); err != nil {
		return false, err
	}
	if _, err := os.Lstat(s.dir); err == nil {
		stale = true
		if err := s.clean(); err != nil {
			return stale, errors.Join(err, s.lock.Close())
		}
	}
	// Mkdir and not MkdirAll: it fails if another process put something there in between.
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return stale, errors.Join(err, s.lock.Close())
	}
	return stale, nil
}

// release removes all that claim and the cluster's life have left on disk, then the lock.
func (s *state) release() error {
	err := s.clean()
	// While it is still held, or a newer holder's would be removed.
	return errors.Join(err, os.Remove(s.lock.Name()), s.lock.Close())
}

func (s *state) clean() error {
	return errors.Join(removeExportedKubeconfig(s), os.RemoveAll(s.dir))
}

// acquire opens the lock file (with O_CREATE: makes it if there is none), locks it and writes this process's id
// into it. If a living supervisor has the lock, the error is a *runningError.
func (s *state) acquire(flags int) error {
	for {
		file, err := s.openLock(flags)
		if err != nil {
			return err
		}
		locked, err := tryLock(file)
		if err == nil && !locked {
			err = s.running(file)
		}
		if err != nil {
			return errors.Join(err, file.Close())
		}
		if isCurrent(file) {
			s.lock = file
			return writePID(file)
		}
		_ = file.Close() // its last holder removed it after we had opened it
	}
}

// supervisorPID returns the process id of the living supervisor, 0 if there is none.
func (s *state) supervisorPID() (int, error) {
	file, err := s.openLock(0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() // and unlock, if nobody has it
	if free, err := tryLock(file); err != nil || free {
		return 0, err
	}
	return readPID(file)
}

// running makes the error for a lock that another process has.
func (s *state) running(file *os.File) error {
	pid, err := readPID(file)
	if err != nil {
		return err
	}
	return &runningError{name: s.name, pid: pid}
}

// openLock opens the lock file if it is this user's own: in a directory that all may write to, another's could
// make us signal any process.
func (s *state) openLock(flags int) (*os.File, error) {
	file, err := os.OpenFile(s.dir+".lock", flags|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		err = fmt.Errorf("%s belongs to another user", file.Name())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// isCurrent reports whether the path of an open file still leads to it.
func isCurrent(file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(opened, current)
}

// tryLock locks an open file unless another process has done so. Closing it unlocks it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// readPID returns the process id in a lock file that another process holds.
func readPID(file *os.File) (int, error) {
	content := make([]byte, 32)
	n, err := file.ReadAt(content, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	pid, err := strconv.Atoi(string(content[:n]))
	if err != nil { // it has been locked this very moment
		return 0, fmt.Errorf("%s has no process id yet; try again", file.Name())
	}
	return pid, nil
}
