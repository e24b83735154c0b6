package journal

import (
	"errors"
	"time"
)

// Tally says how much is kept, and how much was received since the directory was opened.
type Tally struct {
	Held    int64     // disk space of all journals, in bytes
	Bound   int64     // limit of Held
	Entries int64     // entries that were written
	Bytes   int64     // size of these entries as they were sent
	Last    time.Time // time of the last write, also before the directory was opened; zero: never
	Full    bool      // the disk was too full for the last upload
}

// fullTime is how long the disk counts as full after an upload found it full. Nodes try again four times a minute, so
// after this time without a failure no node wants to send.
const fullTime = 5 * time.Minute

// counts holds the counters of a Tally. The lock of Dir guards it.
type counts struct {
	entries, bytes int64
	last           time.Time
	full           time.Time // when the disk was last full; zero if a later write succeeded
}

// Tally returns the current figures.
func (d *Dir) Tally() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := Tally{Held: d.total(), Bound: d.Total, Entries: d.counts.entries, Bytes: d.counts.bytes, Last: d.counts.last}
	t.Full = !d.counts.full.IsZero() && time.Since(d.counts.full) < fullTime
	return t
}

// count counts entries that were written.
func (d *Dir) count(entries int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &d.counts
	c.entries, c.bytes, c.last, c.full = c.entries+int64(entries), c.bytes+bytes, time.Now(), time.Time{}
}

// noteFull records that an upload ended because the disk was full.
func (d *Dir) noteFull(err error) error {
	if errors.Is(err, ErrFull) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counts.full = time.Now()
	}
	return err
}
