package boot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// A disk that never answers keeps no boot: neither while it is looked for, nor when it is opened.
func TestDiskThatNeverAnswers(t *testing.T) {
	before := diskWait
	diskWait = 50 * time.Millisecond
	defer func() { diskWait = before }()
	sys, dev := sysTree(t, map[string]string{"class/block/sda/size": "1000000"}), t.TempDir()
	fifo := filepath.Join(dev, "sda") // whoever opens it waits for one that writes
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	m := cacheMachine("")
	m.disks = &diskFinder{done: make(chan struct{})}
	m.disks.begin(func() (string, error) { return cacheDevice(sys, dev, blockDevices(sys)), nil })
	var c BlockConfig
	begun := time.Now()
	if text := cacheOf(t, m, sys, &c); text != "" || c.Disk != nil || time.Since(begun) > 4*time.Second {
		t.Errorf("a disk that is looked for: %q after %s", text, time.Since(begun))
	}
	wantNoCache(t, m, "none was found")
	if _, err := within(t.Context(), "/dev/sda", func() (*os.File, error) { return os.Open(fifo) }); err == nil ||
		hintOf(err) == "" {
		t.Errorf("a disk that is opened: %v", err)
	}
	// Both who wait for it are let go.
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-m.disks.done
	w.Close()
}

// Nor does one that answers no more while something is kept on it.
func TestRecordsOnADiskThatStops(t *testing.T) {
	before := diskWait
	diskWait = 200 * time.Millisecond
	defer func() { diskWait = before }()
	disk := newCacheDisk(t)
	m := cacheMachine("..") // of /dev
	m.disks.name += disk.Name
	stops := make(chan struct{})
	defer close(stops)
	if got, err := withRecords(t.Context(), m, func(r bootRecords) (string, error) {
		return "good", r.SetRecord("a", []byte("b"))
	}); got != "good" || err != nil {
		t.Errorf("a disk that works: %q, %v", got, err)
	}
	if _, err := withRecords(t.Context(), m, func(bootRecords) (string, error) {
		<-stops
		return "", nil
	}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a disk that stops: %v", err)
	}
	if _, err := withRecords(t.Context(), &machine{}, func(bootRecords) (string, error) { return "", nil }); !errors.Is(
		err,
		errNoRecords,
	) {
		t.Errorf("without drivers of disks: %v", err)
	}
}

// stuck is a disk whose reads do not come back.
type stuck struct {
	lateKeeper
	reads chan struct{}
}

func (k *stuck) Get(chunk.ID, int64) (chunk.Verified, bool) {
	<-k.reads
	return chunk.Verified{}, false
}

// A cache that answers nothing is on the timeline, once.
func TestCacheThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &blockDaemon{log: quietLog(), ledger: testLedger(t), cfg: BlockConfig{Disk: newCacheDisk(t)}}
		d.openCache(t.Context())
		k := &stuck{reads: make(chan struct{})}
		d.through.Keeper = k
		for n := range 10 {
			d.through.Look(t.Context(), chunk.Request{ID: chunk.Sum([]byte{byte(n)})})
		}
		time.Sleep(time.Minute)
		got := d.ledger.incidents(0)
		if !slices.Equal(kinds(BlockStatus{Incidents: got}), []IncidentKind{CacheFailed}) ||
			!strings.Contains(got[0].Message, "too late") ||
			got[0].Source == "" {
			t.Errorf("incidents %+v", got)
		}
		close(k.reads)
	})
}
