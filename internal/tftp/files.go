package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"time"
)

// Content is what a transfer sends. *bytes.Reader, *strings.Reader and *io.SectionReader are Contents. A Content that
// is an io.Closer is closed when its transfer ends. Its size must not change.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Request is one read request for a name.
type Request struct {
	Name  string         // clean: relative, "/" between parts, no "..", no control characters
	Peer  netip.AddrPort // the client
	Local netip.Addr     // the server's address that the client used; the zero Addr where the system does not tell it
}

// Files maps a name to its content. The peer gets "file not found" for an fs.ErrNotExist, and "access violation" for
// any other error; the text goes to the log. It is called concurrently.
type Files interface {
	Open(ctx context.Context, r Request) (Content, error)
}

// FilesFunc makes Files of a function.
type FilesFunc func(ctx context.Context, r Request) (Content, error)

// Open calls f.
func (f FilesFunc) Open(ctx context.Context, r Request) (Content, error) { return f(ctx, r) }

// maxFile bounds what FS reads into memory; the largest boot loader at hand has 1 MB.
const maxFile = 64 << 20

// FS serves the regular files of a file system, which the caller confines: os.Root.FS follows no link that leads
// outside. A transfer reads its whole file at the start, so replacing a file does not affect running transfers.
func FS(fsys fs.FS) Files {
	return FilesFunc(func(_ context.Context, r Request) (Content, error) {
		info, err := fs.Stat(fsys, r.Name)
		switch {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("open %s: not a regular file: %w", r.Name, fs.ErrNotExist)
		case info.Size() > maxFile:
			return nil, fmt.Errorf(
				"open %s: %d bytes is more than TFTP should carry (%d)",
				r.Name,
				info.Size(),
				maxFile,
			)
		}
		b, err := fs.ReadFile(fsys, r.Name)
		if err != nil {
			return nil, err
		}
		return bytes.NewReader(b), nil
	})
}

// Transfer describes one finished transfer.
type Transfer struct {
	Name     string // as cleaned; as requested if it could not be cleaned
	Peer     netip.AddrPort
	Local    netip.Addr
	Size     int64 // of the content as sent; 0 if there was none
	Bytes    int64 // acknowledged by the peer
	Started  time.Time
	Duration time.Duration
	Retries  int   // windows sent again
	Err      error // nil: the peer has everything
}

// Probe reports whether the peer only wanted to know the size: firmware negotiates tsize, breaks the transfer off and
// then requests the file again. That is no failure.
func (t Transfer) Probe() bool {
	var p *PeerError
	return t.Bytes == 0 && errors.As(t.Err, &p)
}

// PeerError is an error packet that the peer sent.
type PeerError struct {
	Code    uint16
	Message string
}

// Error returns the peer's code and text.
func (e *PeerError) Error() string {
	return fmt.Sprintf("peer broke off: error %d %q", e.Code, e.Message)
}

// errName means that no file can have this name.
var errName = errors.New("name leads outside the tree or has characters that no name has")

// clean turns the name that a peer requested into a relative path. Firmware sends both leading slashes and
// backslashes. Old ROMs append the number and length of the next DHCP option, so a name ends at the first control
// character.
func clean(s string) (string, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd }); i > 0 {
		s = s[:i]
	}
	s = strings.ReplaceAll(s, `\`, "/")
	if len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd }) {
		return "", errName
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return "", errName
		}
	}
	name := strings.TrimPrefix(path.Clean("/"+s), "/")
	if name == "" {
		return "", errName
	}
	return name, nil
}
