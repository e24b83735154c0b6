package blockd

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/rundir"
)

// counter is the index of a number in the ledger.
type counter int

const (
	bytesServer counter = iota // includes bytesBucket
	bytesBucket
	bytesPeer
	bytesUploaded
	bytesCache
	bytesZero
	bytesPack   // answered from the boot pack
	bytesUnread // in the boot pack's part until booted: received and not read
	bytesLate   // in the rest of the boot pack: received and not read
	bytesSpared // in the boot pack, and read from chunks that the node had
	bytesDisk   // read from the disk cache
	bytesRAM    // read from the memory cache
	countReads
	countReadBytes
	countFetches
	countRejected
	countFailures
	countErrors
	countStalled  // nanoseconds
	countComplete // nanoseconds
	countWhole    // nanoseconds
	countRestarts
	countLinkFixes
	counterCount
)

const (
	incidentSlots = 64
	incidentSize  = 768
)

// ledgerMemory is the layout of the memory that supervisor and block daemon share. It has no version: it is never
// stored, and both processes are the same program.
type ledgerMemory struct {
	counters [counterCount]atomic.Int64
	sequence atomic.Int64 // number of the newest incident
	slots    [incidentSlots]struct {
		sequence atomic.Int64 // 0 while the slot is being written
		length   atomic.Int64
		text     [incidentSize]byte // JSON of an Incident
	}
}

// ledger holds counters and incidents in shared memory (a memfd), which survives a block daemon that is killed.
type ledger struct {
	*ledgerMemory
	reports *sync.Mutex // serializes report within this process
}

// newLedger makes an empty ledger and the file to pass on.
func newLedger() (ledger, *os.File, error) {
	fd, err := unix.MemfdCreate("pando-ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return ledger{}, nil, fmt.Errorf("make ledger: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ledger")
	if err := f.Truncate(int64(unsafe.Sizeof(ledgerMemory{}))); err != nil {
		f.Close()
		return ledger{}, nil, fmt.Errorf("make ledger: %w", err)
	}
	l, err := openLedger(f)
	if err != nil {
		f.Close()
		return ledger{}, nil, err
	}
	return l, f, nil
}

// openLedger maps the ledger of f, which may be closed afterwards. The mapping stays until the process ends.
func openLedger(f *os.File) (ledger, error) {
	size := int(unsafe.Sizeof(ledgerMemory{}))
	if st, err := f.Stat(); err != nil || st.Size() < int64(size) {
		return ledger{}, fmt.Errorf("open ledger: file is not a ledger (%v)", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return ledger{}, fmt.Errorf("open ledger: %w", err)
	}
	return ledger{(*ledgerMemory)(unsafe.Pointer(&mem[0])), new(sync.Mutex)}, nil
}

func (l ledger) add(c counter, n int64) { l.counters[c].Add(n) }

func (l ledger) get(c counter) int64 { return l.counters[c].Load() }

// report appends an incident with the next number and the current time. Supervisor and daemon may report at the same
// time without a common lock: a process that is killed would hold such a lock for ever.
func (l ledger) report(i blockapi.Incident) {
	l.reports.Lock()
	defer l.reports.Unlock()
	i.Sequence, i.Time, i.At = l.sequence.Add(1), time.Now().UTC().Round(time.Millisecond), rundir.Monotonic()
	i.Source, i.Message = cut(i.Source, 100), cut(i.Message, 300)
	text, err := json.Marshal(i)
	if err != nil || len(text) > incidentSize {
		// JSON may escape each byte to six. Object and kind still identify the incident.
		i.Source, i.Message = "", ""
		text, _ = json.Marshal(i)
	}
	s := &l.slots[i.Sequence%incidentSlots]
	s.sequence.Store(0)
	s.length.Store(int64(copy(s.text[:], text)))
	s.sequence.Store(i.Sequence)
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n-3] + "..."
	}
	return s
}

// incidents returns the stored incidents after since, oldest first.
func (l ledger) incidents(since int64) []blockapi.Incident {
	newest := l.sequence.Load()
	out := []blockapi.Incident{}
	for n := max(since, newest-incidentSlots) + 1; n <= newest; n++ {
		s := &l.slots[n%incidentSlots]
		if s.sequence.Load() != n {
			continue
		}
		text := append([]byte(nil), s.text[:min(max(s.length.Load(), 0), incidentSize)]...)
		var i blockapi.Incident
		// Another report may have overwritten the slot meanwhile; its number differs then.
		if s.sequence.Load() == n && json.Unmarshal(text, &i) == nil {
			out = append(out, i)
		}
	}
	return out
}

// status returns the fields of a Status that are in the ledger.
func (l ledger) status(since int64) blockapi.Status {
	bucket := l.get(bytesBucket)
	return blockapi.Status{
		Bytes: map[string]int64{
			"server": max(0, l.get(bytesServer)-bucket),
			"bucket": bucket,
			"cache":  l.get(bytesCache),
			"zero":   l.get(bytesZero),
			"pack":   l.get(bytesPack),
			"peer":   l.get(bytesPeer),
			"disk":   l.get(bytesDisk),
			"ram":    l.get(bytesRAM),
		},
		Uploaded: l.get(bytesUploaded),
		Reads:    l.get(countReads), ReadBytes: l.get(countReadBytes), Fetches: l.get(countFetches),
		Rejected: l.get(countRejected), Failures: l.get(countFailures), Errors: l.get(countErrors),
		Stalled: time.Duration(
			l.get(countStalled),
		), Complete: time.Duration(l.get(countComplete)), Whole: time.Duration(l.get(countWhole)),
		Restarts:  l.get(countRestarts),
		LinkFixes: l.get(countLinkFixes),
		Incidents: l.incidents(since), Sequence: l.sequence.Load(),
	}
}
