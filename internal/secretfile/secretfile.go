package secretfile

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Others and Rest are the mode bits of a file that give rights to others. Rest lets the group read it, as ssl-cert does
// in Debian.
const (
	Others os.FileMode = 0o077
	Rest   os.FileMode = 0o027
)

// Error means that others have or had rights to a file of secrets.
type Error struct {
	Path string
	Err  error
	hint string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Hint reports what the administrator can do.
func (e *Error) Hint() string { return e.hint }

// Read reads a file that Check accepts. Anyone else who could read it may have the secret, and anyone who could write
// it may have replaced it.
func Read(path string, others os.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = Check(path, info, others)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// Check returns an error if a file or directory of secrets has one of the mode bits others, or another owner than root
// and this user.
func Check(path string, info os.FileInfo, others os.FileMode) error {
	if mode := info.Mode().Perm(); mode&others != 0 {
		return &Error{
			Path: path,
			Err:  fmt.Errorf("others may read or write it: its mode is %04o", mode),
			hint: fmt.Sprintf("if nobody else was on this machine: chmod %04o %s; else make new keys", mode&^others,
				path),
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return &Error{
			Path: path,
			Err:  fmt.Errorf("it belongs to user %d, who can change it", st.Uid),
			hint: "if nobody else was on this machine: chown root " + path + "; else make new keys",
		}
	}
	return nil
}
