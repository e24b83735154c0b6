package journal

import (
	"errors"
	"time"
)

// Tally is how much is kept, and what has come since the directory was opened.
type Tally struct {
	Held    int64     // bytes of the disk
	Bound   int64     // bytes that all journals may have
	Entries int64     // that were written
	Bytes   int64     // of these entries, as they were sent
	Last    time.Time // when something was written last, also before the directory was opened; zero: never
	Full    bool      // the disk had no room for what came last
}

// fullTime is how long a disk is taken to be full after it had no room. A node tries again four times a minute, so
// when none has for so long, none wants to.
const fullTime = 5 * time.Minute

// counts are what a Tally is made of, under the directory's lock.
type counts struct {
	entries, bytes int64
	last           time.Time
	full           time.Time // when there was no room; zero: there is
}

// Tally returns the current figures.
func (d *Dir) Tally() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := Tally{Held: d.total(), Bound: d.Total, Entries: d.counts.entries, Bytes: d.counts.bytes, Last: d.counts.last}
	t.Full = !d.counts.full.IsZero() && time.Since(d.counts.full) < fullTime
	return t
}

// count notes entries that were written.
func (d *Dir) count(entries int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.counts
	c.entries, c.bytes, c.last, c.full = c.entries+int64(entries), c.bytes+bytes, time.Now(), time.Time{}
}

// noteFull notes when an upload ended because the disk was full.
func (d *Dir) noteFull(err error) error {
	if errors.Is(err, ErrFull) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counts.full = time.Now()
	}
	return err
}
