package initrd

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/rundir"
	"pando/internal/testkit/cachekit"
	"pando/internal/trace"
)

// A boot that is too large to be kept is reported with a hint, and kept boots stay.
func TestBootThatIsTooLarge(t *testing.T) {
	disk := cachekit.NewDisk(t)
	boots := func() (index []byte) {
		t.Helper()
		index, err := lastboot.OnRecords(
			disk,
			func(records lastboot.Records) ([]byte, error) { return records.Record("boots") },
		)
		if err != nil {
			t.Fatal(err)
		}
		return index
	}
	try := func(files int) (*machine, *rundir.KeptMark) {
		a := fleet.Assignment{Boot: fleet.BootID(strings.Repeat("1", 1+files>>20)), Offline: true,
			Files: []fleet.File{{Data: random(files)}}}
		m := cacheMachine("")
		v := &Verified{Bytes: []byte("m"), Signature: []byte("s"), Pack: random(bootpack.MaxSize)}
		s := &Session{Assignment: a}
		var err error
		if s.Answer.Assignment, err = json.Marshal(a); err != nil {
			t.Fatal(err)
		}
		return m, m.fallback.keepBoot(t.Context(), disk, s, v, link.Lease{})
	}
	m, kept := try(1000)
	if events := m.timeline.report.Take(); len(events) > 0 || kept == nil || kept.Device != disk.Name ||
		kept.Boot != "1" {
		t.Errorf("a small one: %+v, noted at %+v", events, kept)
	}
	before := boots()
	m, kept = try(fleet.MaxConfigFiles)
	events := m.timeline.report.Take()
	if len(events) != 1 || events[0].Kind != trace.Info || !strings.Contains(events[0].Message, "not kept") ||
		!strings.Contains(events[0].Message, " KB, its manifest") ||
		!strings.Contains(events[0].Hint, "smaller config files") ||
		kept != nil {
		t.Errorf("a large one: %+v, noted at %+v", events, kept)
	}
	if !bytes.Equal(boots(), before) || len(before) == 0 {
		t.Error("what was kept before is not kept any more")
	}
	disk.ReadOnly = true
	m, _ = try(1000)
	wantNoCache(t, m, "read-only")
}

// random returns bytes that cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return b
}
