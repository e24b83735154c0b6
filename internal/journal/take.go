package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Limits of one piece, which is passed to systemd-journal-remote at once. An endless stream is written piece by piece.
const (
	pieceBytes = 8 << 20
	pieceTime  = 2 * time.Second
)

// cursorName is the file that holds the cursor of the last written entry of a boot.
const cursorName = "cursor"

// Take writes a node's upload of a boot's journal. If it returns nil, all entries are in the journal file. After an
// error the node may send everything again: entries that are present are skipped. Errors include *FormatError,
// io.ErrUnexpectedEOF, ErrFull and ErrBusy.
func (d *Dir) Take(ctx context.Context, node, id string, r io.Reader) error {
	return d.noteFull(d.take(ctx, node, id, r))
}

func (d *Dir) take(ctx context.Context, node, id string, r io.Reader) error {
	leave, err := d.enter(node, id)
	if err != nil {
		return err
	}
	defer leave()
	last, err := d.lastCursor(node, id)
	if err != nil {
		return err
	}
	p := piece{Dir: d, node: node, id: id, last: last}
	defer p.close()
	in := newEntries(r)
	for {
		entry, at, err := in.next()
		if err == nil && at.after(p.last) {
			err = p.add(ctx, entry, at)
		}
		if err == nil {
			continue
		}
		if in.leftOut > 0 {
			d.Log.Debug(
				"left out of a journal: too large, or not in form",
				"node",
				node,
				"boot",
				id,
				"fields",
				in.leftOut,
			)
		}
		// The node may be gone for ever, so its last complete entries are written even now.
		kept := p.flush(context.WithoutCancel(ctx))
		if errors.Is(err, io.EOF) {
			return kept
		}
		return errors.Join(err, kept)
	}
}

// enter makes the directory of a boot and reserves it for one upload.
func (d *Dir) enter(node, id string) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.have[node][id]
	if b == nil {
		dir := d.dir(node, id)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("make the directory of a journal: %w", full(err))
		}
		if err := errors.Join(d.own(filepath.Dir(dir)), d.own(dir)); err != nil {
			return nil, err
		}
		d.put(node, id, boot{newest: time.Now()})
		b = d.have[node][id]
	}
	if b.busy {
		return nil, fmt.Errorf("boot %s of node %s sends its journal already: %w", id, node, ErrBusy)
	}
	b.busy = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		b.busy = false
	}, nil
}

func (d *Dir) lastCursor(node, id string) (cursor, error) {
	text, err := os.ReadFile(filepath.Join(d.dir(node, id), cursorName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cursor{}, fmt.Errorf("journal of boot %s: %w", id, err)
	}
	return parseCursor(strings.TrimSpace(string(text))), nil
}

// piece holds entries that are not yet written.
type piece struct {
	*Dir
	node, id string
	spool    *os.File
	bytes    int64
	entries  int
	begun    time.Time
	last     cursor
}

// add adds an entry to the piece, and writes the piece when it is large or old.
func (p *piece) add(ctx context.Context, entry []byte, at cursor) (err error) {
	if p.spool == nil {
		if p.spool, err = os.CreateTemp(p.Path, ".spool-"); err != nil {
			return fmt.Errorf("spool a journal: %w", full(err))
		}
		if err := os.Remove(p.spool.Name()); err != nil {
			return err
		}
	}
	if p.entries == 0 {
		p.begun = time.Now()
	}
	n, err := p.spool.Write(entry)
	if err != nil {
		// Remove a partly written entry.
		return errors.Join(fmt.Errorf("spool a journal: %w", full(err)), p.spool.Truncate(p.bytes))
	}
	p.bytes += int64(n)
	p.entries++
	p.last = at
	if p.bytes >= pieceBytes || time.Since(p.begun) >= pieceTime {
		return p.flush(ctx)
	}
	return nil
}

// flush writes the piece to the boot's journal.
func (p *piece) flush(ctx context.Context) error {
	if p.entries == 0 {
		return nil
	}
	if err := p.makeRoom(p.node, p.bytes); err != nil {
		return err
	}
	if err := p.write(ctx, p.node, p.id, p.spool, p.entries); err != nil {
		return err
	}
	// The file is not synced: after a power cut some lines may be written twice, but none is lost.
	if err := os.WriteFile(filepath.Join(p.dir(p.node, p.id), cursorName), []byte(p.last.String()+"\n"),
		0o640); err != nil {
		return fmt.Errorf("journal of boot %s: %w", p.id, full(err))
	}
	p.count(p.entries, p.bytes)
	p.bytes, p.entries = 0, 0
	_, err := p.spool.Seek(0, io.SeekStart)
	return errors.Join(err, p.spool.Truncate(0))
}

func (p *piece) close() {
	if p.spool != nil {
		_ = p.spool.Close() // the file has no name any more
	}
}
