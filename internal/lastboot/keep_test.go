package lastboot

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"pando/internal/cache"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/rundir"
	"pando/internal/testkit/cachekit"
)

// noise returns bytes that cannot be compressed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// cacheRecords returns the records of an empty cache that also has those of an older release.
func cacheRecords(t *testing.T) Records {
	t.Helper()
	disk := cachekit.NewDisk(t)
	r, err := cache.OpenRecords(disk.File, disk.Size, cache.Options{})
	for _, old := range []string{"boot", "boot before"} {
		err = errors.Join(err, r.SetRecord(old, []byte("{}")))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The largest possible map of a boot pack and config files of 150 KB can be kept at each boot, for three versions
// with different kernels.
func TestLargeBootIsKept(t *testing.T) {
	r := keptRun{T: t, records: cacheRecords(t)}
	for version := range int64(4) {
		kernel := string(rune('a' + version))
		for n := range 3 {
			id := fleet.BootID([]string{"first", "second", "third"}[n] + kernel)
			b := r.boot(id, version+1, kernel, 150_000)
			b.Pack, b.Lease.Name = noise(uint64(version), bootpack.MaxSize), "eth0"
			if err := b.KeepIn(r.records); err != nil {
				t.Fatalf("boot %s: %v", id, err)
			}
			r.booted(id)
			r.wants(kernel, id)
			got, err := Pick(r.records, r.cfg, kernel)
			if err != nil || !bytes.Equal(got.Pack, b.Pack) || !bytes.Equal(got.Assignment, b.Assignment) ||
				got.Lease.Name != "eth0" {
				t.Errorf("boot %s is not what was kept: %v", id, err)
			}
		}
	}
}

// Another boot of the same version writes only its assignment and the index.
func TestEqualPartsAreWrittenOnce(t *testing.T) {
	c := &powered{recordStore: recordStore{}, left: 100}
	r := keptRun{T: t, records: c}
	for n, want := range []int{3, 1, 2, 1, 2} {
		before := c.left
		switch id := fleet.BootID(rune('a' + n/2)); n % 2 {
		case 0:
			r.keep(id, 1, "6.1")
		case 1:
			r.booted(id)
			r.booted(id)
		}
		if got := before - c.left; got != want {
			t.Errorf("step %d: %d records were written, want %d", n, got, want)
		}
	}
	c.recordStore["boot part 0"][5] ^= 1
	r.keep("d", 1, "6.1")
	r.booted("d")
	r.wants("6.1", "d") // the damaged part was not reused
}

// powered is a recordStore whose power fails after this many more records.
type powered struct {
	recordStore
	left int
}

func (c *powered) SetRecord(name string, data []byte) error {
	if c.left == 0 {
		return errors.New("no power")
	}
	c.left--
	return c.recordStore.SetRecord(name, data)
}

// If the power fails while a boot is kept, the boot that came up before stays intact, also if there is little room.
func TestKeptBootsAndPowerCuts(t *testing.T) {
	for _, files := range []int{1000, 150_000} {
		for power := range 12 {
			c := &powered{recordStore: recordStore{}, left: 100}
			r := keptRun{T: t, records: c}
			keep := func(id fleet.BootID, root int64) error {
				b := r.boot(id, root, "6.1", files)
				b.Pack = noise(uint64(root), files*5/2)
				return b.KeepIn(c)
			}
			if err := errors.Join(keep("a1", 1), markBooted(c, "a1"), keep("b1", 2)); err != nil {
				t.Fatal(err)
			}
			c.left = power
			err := keep("c1", 3)
			r.wants("6.1", "a1")
			if err == nil {
				c.left = 1
				r.booted("c1")
				r.wants("6.1", "c1")
			} else if power == 11 {
				t.Error(err)
			}
		}
	}
}

// An index is untrusted: what it makes the node read is bounded.
func TestUnknownIndexes(t *testing.T) {
	part := `{"slot":0,"digest":"sha256:` + strings.Repeat("ab", 32) + `"}`
	for _, index := range []string{"", "{", `[{"version":[{"slot":13,"digest":""}]}]`,
		`[{"version":[{"slot":-1,"digest":""}]}]`,
		`[{"assignment":[` + strings.Repeat(part+",", keptParts) + part + `]}]`, "[{},{},{},{}]"} {
		if k, err := readKept(recordStore{keptRecord: []byte(index)}); k != nil || err != nil {
			t.Errorf("%s: %+v, %v", index, k, err)
		}
	}
	k, err := readKept(recordStore{keptRecord: []byte("[{}]")})
	if err != nil || len(k) != 1 {
		t.Fatalf("%+v, %v", k, err)
	}
	if b, err := k[0].load(recordStore{}); !errors.Is(err, errFields) {
		t.Errorf("a boot without parts: %+v, %v", b, err)
	}
	good := joinFields([]byte("a"), nil, []byte("bc"))
	if f, err := splitFields(good); err != nil || string(f[0])+string(f[2]) != "abc" {
		t.Errorf("%q, %v", f, err)
	}
	for n := range good {
		if f, err := splitFields(good[:n]); !errors.Is(err, errFields) {
			t.Errorf("%d of %d bytes: %q, %v", n, len(good), f, err)
		}
	}
	if f, err := splitFields(append(good, 0)); !errors.Is(err, errFields) {
		t.Errorf("a byte more: %q, %v", f, err)
	}
}

// A boot that came up is recorded on a disk that another process has open.
func TestNoteOnADisk(t *testing.T) {
	disk := cachekit.NewDisk(t)
	records, err := cache.OpenRecords(disk.File, disk.Size, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := keptRun{T: t, records: records}
	r.keep("a1", 1, "6.1")
	r.booted("a1")
	r.keep("b1", 2, "6.1")
	r.wants("6.1", "a1")
	if err := NoteBooted(rundir.KeptMark{Device: disk.Name, Boot: "b1"}); err != nil {
		t.Fatal(err)
	}
	r.wants("6.1", "b1")
}
