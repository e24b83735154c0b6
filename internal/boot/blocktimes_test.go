package boot

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"cpu  10 0 20 300 45 0 6 0 0 0\ncpu0 10 0 20 300 45 0 6 0 0 0\n": 3450 * time.Millisecond,
		"cpu  10 0 20 300\n":             -1, // before Linux 2.5.41
		"cpu0 10 0 20 300 45 0 6\n":      -1,
		"cpu  10 0 20 300 45 0 6":        -1, // the line goes on
		"cpu  10 0 20 many 45 0 6 0 0\n": -1,
		"":                               -1,
	} {
		if got, ok := idleTime([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
	}
	f := openTimes()
	if f == nil {
		t.Fatal("no " + timesFile)
	}
	defer f.File.Close()
	if s := newSpareTime(f); s.at.IsZero() || s.idle <= 0 {
		t.Errorf("this machine was never idle: %v", s.idle)
	}
}

// A machine is busy while hardly any time of its processors is left, and not when nobody knows.
func TestSpareTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "stat")
		tell := func(text string) {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tell("cpu  0 0 0 100 100 0 0 0 0 0\n")
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := newSpareTime(&Times{f})
		for i, step := range []struct {
			after time.Duration
			stat  string
			busy  bool
		}{
			{time.Second, "cpu  95 0 0 102 103 0 0 0 0 0\n", true},
			{spareEvery / 2, "cpu  95 0 0 182 103 0 0 0 0 0\n", true}, // too soon for another look
			{spareEvery, "cpu  95 0 0 182 103 0 0 0 0 0\n", false},
			{time.Second, "cpu  195 0 0 182 103 0 0 0 0 0\n", true},
			{time.Second, "cpu  195 0 0 182 183 0 0 0 0 0\n", false}, // it waits for the root
			{time.Second, "cpu  295 0 0 182 183 0 0 0 0 0\n", true},
			{time.Second, "something else\n", false},
			{time.Second, "cpu  395 0 0 182 183 0 0 0 0 0\n", false},
		} {
			time.Sleep(step.after)
			tell(step.stat)
			if got := s.none(); got != step.busy {
				t.Errorf("step %d: busy %v", i, got)
			}
		}
		if newSpareTime(nil).none() {
			t.Error("busy, and nobody knows")
		}
	})
}

// A daemon's descriptors are those of its configuration, in the same order at both ends.
func TestFilesOfBlockConfig(t *testing.T) {
	for _, c := range []BlockConfig{{}, {Disk: &CacheDisk{}}, {Times: &Times{}}, {Disk: &CacheDisk{}, Times: &Times{}}, {Late: &LateDisk{}, Times: &Times{}}} {
		sent := c
		want := 0
		if c.Disk != nil {
			sent.Disk = &CacheDisk{File: os.Stdin}
			want++
		}
		if c.Late != nil {
			sent.Late = &LateDisk{File: os.Stdin}
			want++
		}
		if c.Times != nil {
			sent.Times = &Times{File: os.Stdout}
			want++
		}
		if n := len(sent.files()); n != want {
			t.Errorf("%d descriptors, want %d", n, want)
		}
		const first = 1 << 20 // descriptors that are not open: nothing is read from them
		c.takeFiles(first)
		if c.Disk != nil && c.Disk.File.Fd() != first || c.Late != nil && c.Late.File.Fd() != first ||
			c.Times != nil && c.Times.File.Fd() != uintptr(first+want-1) {
			t.Errorf("other descriptors than were sent: %+v", c)
		}
	}
}
