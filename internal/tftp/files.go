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

// Content is what is sent: *bytes.Reader, *strings.Reader and *io.SectionReader are Contents. One that is
// an io.Closer is closed when its transfer ends. Its size must not change.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Request is one question for a name.
type Request struct {
	Name  string         // clean: relative, "/" between parts, no "..", no control characters
	Peer  netip.AddrPort // who asks
	Local netip.Addr     // the address that was asked; the zero Addr where the system does not tell
}

// Files maps a name to its content. The peer gets "file not found" for an fs.ErrNotExist, and "access violation" for
// any other error; the text goes to the log. It is called concurrently.
type Files interface {
	Open(ctx context.Context, r Request) (Content, error)
}

// FilesFunc makes a function Files.
type FilesFunc func(ctx context.Context, r Request) (Content, error)

// Open calls f.
func (f FilesFunc) Open(ctx context.Context, r Request) (Content, error) { return f(ctx, r) }

// maxFile bounds what FS reads into memory; the largest boot loader at hand has 1 MB.
const maxFile = 64 << 20

// FS serves the regular files of a file system, which the caller confines: os.Root.FS follows no link that
// leads outside. Files are read into memory when a transfer starts, so that replacing one harms nobody.
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

// Transfer is the account of one finished transfer.
type Transfer struct {
	Name     string // as cleaned; as asked for when it could not be cleaned
	Peer     netip.AddrPort
	Local    netip.Addr
	Size     int64 // of the content as sent; 0 if there was none
	Bytes    int64 // acknowledged by the peer
	Started  time.Time
	Duration time.Duration
	Retries  int   // windows sent again
	Err      error // nil: the peer has everything
}

// Probe reports whether the peer only asked for the size: firmware negotiates tsize, breaks the transfer off and
// then starts it in earnest. That is no failure.
func (t Transfer) Probe() bool {
	var p *PeerError
	return t.Bytes == 0 && errors.As(t.Err, &p)
}

// PeerError is an error packet that the peer sent.
type PeerError struct {
	Code    uint16
	Message string
}

// Error is the peer's code and text.
func (e *PeerError) Error() string {
	return fmt.Sprintf("peer broke off: error %d %q", e.Code, e.Message)
}

// errName says that a name is none that can exist here.
var errName = errors.New("name leads outside the tree or has characters that no name has")

// clean makes a name of what a peer asked for. Firmware sends both leading slashes and backslashes, and old ROMs send
// what stood behind the name in the DHCP packet: the number and length of an option. So a name ends where a byte
// stands that no name has.
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
