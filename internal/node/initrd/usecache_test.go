package initrd

import (
	"io"
	"strings"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/testkit/cachekit"
	"pando/internal/trace"
)

// testMachine returns a boot that reports to nobody.
func testMachine() *machine {
	m := newMachine("test", places{}, Parts{})
	m.registration.session = &Session{}
	return m
}

// sessionOf returns the result of the machine's registration.
func sessionOf(m *machine) *Session {
	return &Session{Assignment: m.timeline.assigned(), Answer: m.registration.session.Answer}
}

// cacheMachine returns a machine whose group has a cache on a disk, and that found this device.
func cacheMachine(device string) *machine {
	m := testMachine()
	m.cacheDisk.disks = &diskFinder{done: make(chan struct{}), name: device}
	close(m.cacheDisk.disks.done)
	m.timeline.assignment.Store(&fleet.Assignment{Cache: &fleet.Cache{Kind: fleet.CacheDisk, Size: 80e6}})
	return m
}

// A cache in memory takes at most a quarter of the memory, whatever the group's setting, and the phase's message says
// so.
func TestCacheInMemoryIsBounded(t *testing.T) {
	const gb = 1 << 30
	for _, x := range []struct {
		asked, memory, want int64
		text                string
	}{
		{64e6, 2 * gb, 64e6, ""},
		{2e9, 2 * gb, gb / 2, ", cache of 536 MB in memory and not of 2000: a quarter of what the node has"},
		{2e9, 16 * gb, 2e9, ""},
		{4e9, 0, 4e9, ""}, // memory unknown
	} {
		if got, text := cacheRAM(x.asked, x.memory); got != x.want || text != x.text {
			t.Errorf("%d of %d: %d, %q, want %d, %q", x.asked, x.memory, got, text, x.want, x.text)
		}
	}
	m := cacheMachine("")
	m.timeline.assignment.Store(&fleet.Assignment{Cache: &fleet.Cache{Kind: fleet.CacheRAM, Size: 1 << 50}})
	var c blockapi.Config
	if text := m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(m), &c); !strings.Contains(
		text,
		"a quarter",
	) ||
		c.RAM <= 0 ||
		c.RAM > hardware.Memory()/4 {
		t.Errorf("%q, %d bytes of %d", text, c.RAM, hardware.Memory())
	}
}

// cacheOf lets a machine find its cache and hand it over as to the daemons, and returns the timeline. Only the
// configuration has the disk then.
func cacheOf(t *testing.T, m *machine, sys string, c *blockapi.Config) string {
	t.Helper()
	m.cacheDisk.cache, m.cacheDisk.handed, c.Disk, c.Pending = nil, nil, nil, nil
	found := func() {}
	if m.cacheDisk.disks.ended() { // the disk is found only after the daemons were started
		m.cacheDisk.disks = &diskFinder{done: make(chan struct{}), name: m.cacheDisk.disks.name}
		found = func() { close(m.cacheDisk.disks.done) }
	}
	if text := m.cacheDisk.useCache(t.Context(), sys, sessionOf(m), c); text != "" || c.Disk != nil ||
		c.Pending == nil {
		t.Fatalf("%q, %+v: it was waited for", text, c.Disk)
	}
	found()
	pending := c.Pending
	defer pending.File.Close()
	c.Pending = nil
	m.cacheDisk.cache.need()
	<-m.cacheDisk.handed
	var err error
	if c.Disk, err = pending.Receive(); err != nil || !pending.Came() ||
		(c.Disk == nil) != (m.cacheDisk.cache.disk == nil) {
		t.Fatalf("%+v was sent, and received %+v, %v", m.cacheDisk.cache.disk, c.Disk, err)
	}
	if c.Disk == nil {
		return ""
	}
	m.cacheDisk.cache.disk.File.Close()
	events := m.timeline.report.Take()
	if len(events) != 1 || events[0].Kind != trace.Info || events[0].Stage != trace.Device ||
		events[0].Attrs[trace.AttrCache] != c.Disk.Name {
		t.Fatalf("events %+v, want one of %s", events, c.Disk.Name)
	}
	return events[0].Message
}

// wantNoCache checks that the boot reported why it has no cache, with a hint, and nothing else.
func wantNoCache(t *testing.T, m *machine, why string) {
	t.Helper()
	events := m.timeline.report.Take()
	if len(events) != 1 || events[0].Kind != trace.Info || events[0].Hint == "" ||
		!strings.Contains(events[0].Message, why) {
		t.Errorf("events %+v, want one that says %q", events, why)
	}
	for _, e := range events {
		if strings.HasPrefix(e.Message, "no cache on a disk") != (e.Attrs[trace.AttrCache] == string(fleet.CacheNone)) {
			t.Errorf("a server is told %v with %q", e.Attrs, e.Message)
		}
	}
}

// A daemon waits only for a disk that the node is known to have.
func TestWhichDiskIsAwaited(t *testing.T) {
	searching := func() *machine {
		m := cacheMachine("")
		m.cacheDisk.disks = &diskFinder{done: make(chan struct{})}
		return m
	}
	for name, x := range map[string]struct {
		m     *machine
		waits bool
	}{
		"unknown":       {searching(), false},
		"its last boot": {searching(), true},
		"a boot medium": {searching(), true},
	} {
		switch name {
		case "its last boot":
			x.m.registration.session.Answer.Cached = true
		case "a boot medium":
			x.m.timeline.config.Medium = fleet.Digest("sha256:" + strings.Repeat("ab", 32))
		}
		var c blockapi.Config
		if text := x.m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(x.m), &c); text != "" ||
			c.Pending == nil ||
			(c.Pending.Wait > 0) != x.waits {
			t.Fatalf("%s: %q, %+v", name, text, c.Pending)
		}
		if c.Pending.Came() {
			t.Errorf("%s: the daemons were told that there is no disk while it is looked for", name)
		}
		close(x.m.cacheDisk.disks.done)
		x.m.cacheDisk.settleCache()
		if disk, err := c.Pending.Receive(); disk != nil || err != nil || !x.m.cacheDisk.cache.failed() {
			t.Errorf("%s: %+v, %v", name, disk, err)
		}
		c.Pending.File.Close()
		wantNoCache(t, x.m, "none is prepared")
	}
	found := cacheMachine("sdx1").cacheDisk
	found.cache = &cacheSearch{done: make(chan struct{})} // the disk is being opened
	var c blockapi.Config
	if err := found.handOver(&c, found.hadCache(&Session{})); err != nil || c.Pending.Wait == 0 {
		t.Errorf("a disk that was found by now: %+v, %v", c.Pending, err)
	}
	close(found.cache.done)
	<-found.handed
	c.Pending.File.Close()
	// If there is certainly no disk, none is pending.
	for name, m := range map[string]*machine{"none found": cacheMachine(""), "no drivers": testMachine()} {
		m.timeline.assignment.Store(&fleet.Assignment{Cache: &fleet.Cache{Kind: fleet.CacheDisk, Size: 80e6}})
		var c blockapi.Config
		if m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(m), &c); c.Pending != nil || c.Disk != nil {
			t.Errorf("%s: %+v", name, c)
		}
		wantNoCache(t, m, map[string]string{"none found": "none is prepared", "no drivers": "no drivers"}[name])
	}
}

// A repeated attempt gets the disk that the attempt before opened, and the disk is opened only once.
func TestNextAttemptHasTheDisk(t *testing.T) {
	disk := cachekit.NewDisk(t)
	m := cacheMachine("")
	m.cacheDisk.disks = &diskFinder{done: make(chan struct{})}
	var first, next blockapi.Config
	m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(m), &first)
	if first.Pending == nil {
		t.Fatalf("%+v: the disk is not found yet", first)
	}
	m.cacheDisk.disks.name = ".." + disk.Name // relative to /dev
	close(m.cacheDisk.disks.done)
	first.Pending.File.Close() // the daemons of the first attempt ended
	m.cacheDisk.settleCache()
	m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(m), &next)
	if next.Disk == nil || next.Disk != m.cacheDisk.cache.disk || next.Pending != nil {
		t.Fatalf("the next attempt: %+v, %+v", next.Disk, next.Pending)
	}
	if size, err := next.Disk.File.Seek(0, io.SeekEnd); err != nil || size != disk.Size {
		t.Errorf("its file has %d bytes: %v", size, err)
	}
	if events := m.timeline.report.Take(); len(events) != 1 {
		t.Errorf("told %+v", events)
	}
}

// A slow disk costs a node that is not known to have one nothing until the boot needs the disk. The search does not
// end before.
func TestWhenADiskIsNeeded(t *testing.T) {
	const wait = 50 * time.Millisecond
	for _, known := range []bool{true, false} {
		m := cacheMachine("")
		m.cacheDisk.diskWait = wait
		m.registration.session.Answer.Cached = known
		m.cacheDisk.disks = &diskFinder{done: make(chan struct{})}
		var c blockapi.Config
		m.cacheDisk.useCache(t.Context(), hardware.Sysfs, sessionOf(m), &c)
		t.Cleanup(func() { c.Pending.File.Close() })
		if known {
			<-m.cacheDisk.cache.done
			wantNoCache(t, m, "none was found")
			continue
		}
		time.Sleep(4 * wait)
		if m.cacheDisk.cache.settled() {
			t.Error("a disk that nobody waits for was given up")
		}
		m.cacheDisk.settleCache()
		if !c.Pending.Came() {
			t.Error("the daemons still wait for a disk when the boot has gone on without")
		}
		wantNoCache(t, m, "none was found")
	}
}
