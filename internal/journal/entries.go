package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of entries. Whatever is longer is left out and the rest is kept, so that a program that logs a crash dump does
// not cost the node its other lines.
const (
	maxField  = 256 << 10 // bytes of one field, with its name
	maxEntry  = 1 << 20   // bytes of one entry
	maxFields = 256       // fields of one entry
	maxSkip   = 1 << 30   // bytes of a field that is skipped; systemd's own limit is 768 MiB
)

// FormatError means that a stream is not in the Journal Export Format.
type FormatError struct{ What string }

func (e *FormatError) Error() string { return "journal export format: " + e.What }

// cursor is the position of an entry in its node's journal: the journal's random ID, and an increasing number.
type cursor struct {
	source string
	number uint64
}

// entries reads a stream in the Journal Export Format (https://systemd.io/JOURNAL_EXPORT_FORMATS), entry by entry.
type entries struct {
	in    *bufio.Reader
	line  []byte
	entry []byte

	// leftOut counts fields and entries that were too large, or that systemd-journal-remote would refuse.
	leftOut int
}

func newEntries(r io.Reader) *entries { return &entries{in: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next complete entry, ready to pass on and valid until the next call, and its cursor. The error is
// io.EOF at the end of the stream, io.ErrUnexpectedEOF if it ends within an entry, or a *FormatError.
func (e *entries) next() ([]byte, cursor, error) {
	for {
		entry, at, err := e.read()
		if err != nil || len(entry) > 0 {
			return entry, at, err
		}
	}
}

// read reads one entry. The result is empty if there is no entry, or none to keep.
func (e *entries) read() ([]byte, cursor, error) {
	e.entry = e.entry[:0]
	var at cursor
	var timed, says, bad bool
	fields := 0
	for {
		f, err := e.field()
		if errors.Is(err, io.EOF) && fields > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, at, err
		}
		if f.end {
			break
		}
		fields++
		switch keep, wrong := f.check(); {
		case wrong:
			bad = true
		case f.name == "__CURSOR":
			at = parseCursor(string(f.value))
		case keep && fields <= maxFields && len(e.entry)+len(f.raw) <= maxEntry:
			e.entry = append(e.entry, f.raw...)
			timed = timed || f.name == "__REALTIME_TIMESTAMP"
			says = says || !strings.HasPrefix(f.name, "__")
		case !strings.HasPrefix(f.name, "__"):
			e.leftOut++
		}
	}
	if fields > 0 &&
		(bad || !timed || !says) { // systemd-journal-remote would refuse it, and the node would send it for ever
		e.leftOut++
		e.entry = e.entry[:0]
	}
	if len(e.entry) > 0 {
		e.entry = append(e.entry, '\n')
	}
	return e.entry, at, nil
}

// field is one field of an entry.
type field struct {
	name  string
	value []byte
	raw   []byte // the received bytes; nil if it was too long
	end   bool   // not a field but the end of the entry
}

// field reads a line and, if the line is only a name, the binary value that follows.
func (e *entries) field() (field, error) {
	if err := e.readLine(); err != nil {
		return field{}, err
	}
	if len(e.line) == 1 {
		return field{end: true}, nil
	}
	long := e.line[len(e.line)-1] != '\n'
	name, value, text := bytes.Cut(e.line, []byte("="))
	f := field{name: strings.TrimSuffix(string(name), "\n")}
	switch {
	case text && !long:
		f.raw, f.value = e.line, value[:len(value)-1]
		return f, nil
	case text:
		return f, nil
	case long:
		return f, &FormatError{"a name of a field without an end"}
	}
	return f, e.binary(&f)
}

// readLine reads a line into e.line. A line that is too long has no line break at the end of e.line.
func (e *entries) readLine() error {
	e.line = e.line[:0]
	for skipped := 0; ; {
		part, err := e.in.ReadSlice('\n')
		if len(e.line)+len(part) <= maxField && skipped == 0 {
			e.line = append(e.line, part...)
		} else if skipped += len(part); skipped > maxSkip {
			return &FormatError{"a line without an end"}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(e.line) > 0:
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}

// binary reads a value that is preceded by its size: 64 bits, little-endian.
func (e *entries) binary(f *field) error {
	var size [8]byte
	if _, err := io.ReadFull(e.in, size[:]); err != nil {
		return unexpected(err)
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxSkip {
		return &FormatError{fmt.Sprintf("field %.64q of %d bytes", f.name, n)}
	}
	if len(e.line)+len(size)+int(n)+1 > maxField {
		if _, err := e.in.Discard(int(n)); err != nil {
			return unexpected(err)
		}
		return e.lineBreak(f)
	}
	e.line = append(e.line, size[:]...)
	from := len(e.line)
	e.line = append(e.line, make([]byte, n)...)
	if _, err := io.ReadFull(e.in, e.line[from:]); err != nil {
		return unexpected(err)
	}
	f.value = e.line[from:]
	if err := e.lineBreak(f); err != nil {
		return err
	}
	e.line = append(e.line, '\n')
	f.raw = e.line
	return nil
}

func (e *entries) lineBreak(f *field) error {
	b, err := e.in.ReadByte()
	if err != nil {
		return unexpected(err)
	}
	if b != '\n' {
		return &FormatError{fmt.Sprintf("field %.64q does not end where it says", f.name)}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// check reports whether a field is passed on, and whether it is an error at which systemd-journal-remote would stop.
func (f field) check() (keep, wrong bool) {
	if !validName(f.name) {
		return false, false
	}
	switch f.name {
	case "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP":
		n, err := strconv.ParseUint(string(f.value), 10, 64)
		return true, err != nil || n >= 1<<55 || n == 0 && f.name == "__REALTIME_TIMESTAMP"
	case "_BOOT_ID":
		return true, len(f.value) != 32 || strings.Trim(string(f.value), "0123456789abcdef") != "" ||
			strings.Trim(string(f.value), "0") == ""
	}
	return f.raw != nil && !strings.HasPrefix(f.name, "__"), false
}

// validName checks systemd's rule: at most 64 capitals, digits and underscores, and no digit first.
func validName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s[:1], "0123456789") != "" &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// parseCursor parses "s=ID;i=HEX;...". It returns the zero cursor for text that is not valid.
func parseCursor(text string) cursor {
	var c cursor
	for part := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "s":
			if len(value) == 32 && strings.Trim(value, "0123456789abcdef") == "" {
				c.source = value
			}
		case "i":
			n, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return cursor{}
			}
			c.number = n
		}
	}
	if c.source == "" || c.number == 0 {
		return cursor{}
	}
	return c
}

// after reports whether the entry at c has not been written yet, if last is the last one that was.
func (c cursor) after(last cursor) bool {
	return c.source != last.source || c.number > last.number || c.source == ""
}

// String returns the cursor as it is stored.
func (c cursor) String() string { return fmt.Sprintf("s=%s;i=%x", c.source, c.number) }
