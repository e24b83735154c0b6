package initrd

import (
	"errors"
	"os"
	"pando/internal/testkit/cachekit"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/disk"
	"pando/internal/lastboot"
	"pando/internal/problem"
)

// A disk that never answers does not block a boot, neither during the search nor when it is opened.
func TestDiskThatNeverAnswers(t *testing.T) {
	const wait = 50 * time.Millisecond
	sys, dev := nodekit.SysTree(t, map[string]string{"class/block/sda/size": "1000000"}), t.TempDir()
	fifo := filepath.Join(dev, "sda") // open blocks until there is a writer
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	m := cacheMachine("")
	m.cacheDisk.diskWait = wait
	m.cacheDisk.disks = &diskFinder{done: make(chan struct{})}
	m.cacheDisk.disks.begin(func() (string, error) { return disk.CacheDevice(sys, dev, disk.BlockDevices(sys)), nil })
	var c blockapi.Config
	begun := time.Now()
	if text := cacheOf(t, m, sys, &c); text != "" || c.Disk != nil || time.Since(begun) > 4*time.Second {
		t.Errorf("a disk that is looked for: %q after %s", text, time.Since(begun))
	}
	wantNoCache(t, m, "none was found")
	if _, err := disk.Within(t.Context(), "/dev/sda", wait,
		func() (*os.File, error) { return os.Open(fifo) }); err == nil ||
		problem.HintOf(err) == "" {
		t.Errorf("a disk that is opened: %v", err)
	}
	// Release both goroutines that wait for it.
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-m.cacheDisk.disks.done
	w.Close()
}

// A disk that stops answering while records are written does not block the boot either.
func TestRecordsOnADiskThatStops(t *testing.T) {
	const wait = 200 * time.Millisecond
	disk := cachekit.NewDisk(t)
	m := cacheMachine("..") // relative to /dev
	m.cacheDisk.diskWait = wait
	m.cacheDisk.disks.name += disk.Name
	stops := make(chan struct{})
	defer close(stops)
	if got, err := withRecords(t.Context(), m.cacheDisk, func(r lastboot.Records) (string, error) {
		return "good", r.SetRecord("a", []byte("b"))
	}); got != "good" || err != nil {
		t.Errorf("a disk that works: %q, %v", got, err)
	}
	if _, err := withRecords(t.Context(), m.cacheDisk, func(lastboot.Records) (string, error) {
		<-stops
		return "", nil
	}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a disk that stops: %v", err)
	}
	if _, err := withRecords(t.Context(), &cacheDisk{},
		func(lastboot.Records) (string, error) { return "", nil }); !errors.Is(
		err,
		lastboot.ErrNoRecords,
	) {
		t.Errorf("without drivers of disks: %v", err)
	}
}
