package media

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testSize = 300 << 20

// made returns a medium in a file, written by way of Send and Carry.
func made(t *testing.T, size int64) (path string, k K, l Loader) {
	t.Helper()
	k = K{Kernel: fill('k', 3_000_001), Initramfs: fill('i', 5_000_000), Args: []string{"quiet", "console=ttyS0"}}
	l = Loader{
		BootCode: fill('b', Sector),
		Core:     fill('c', 150_000),
		Local:    fill('l', 150_500),
		EFI:      fill('e', 300_000),
		IPXE:     fill('x', 400_000),
		IPXEEFI:  fill('y', 1_000_000),
	}
	writes, err := Medium(size, l, k)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "medium.img")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	carry(t, f, size, writes)
	return path, k, l
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func carry(t *testing.T, disk Disk, size int64, writes []Write) {
	t.Helper()
	var wire bytes.Buffer
	if err := Send(&wire, writes); err != nil {
		t.Fatal(err)
	}
	if _, err := Carry(disk, size, &wire); err != nil {
		t.Fatal(err)
	}
}

// run runs a program that must be installed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// sgdisk finds the partition table correct at both ends of the disk.
func TestPartitionTableForSgdisk(t *testing.T) {
	path, _, _ := made(t, testSize)
	if out := run(t, "sgdisk", "--verify", path); !strings.Contains(out, "No problems found") {
		t.Errorf("sgdisk --verify: %s", out)
	}
	out := run(t, "sgdisk", "--print", path)
	for _, want := range []string{"EF02  pando-bios", "EF00  pando-efi", "8300  pando-k-a", "8300  pando-k-b",
		"pando-cache"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := run(t, "sgdisk", "--info=5", path); !strings.Contains(out, "B5A27C4E-90F3-4D1E-8A52-6B0E5F1D7C93") {
		t.Errorf("the cache's partition has another kind:\n%s", out)
	}
}

// fsck finds the system partition correct, and mtools read the written files from it.
func TestSystemPartitionForMtools(t *testing.T) {
	path, _, l := made(t, testSize)
	esp := filepath.Join(t.TempDir(), "esp")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(esp, b[espAt:espAt+espSize], 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, "fsck.vfat", "-n", "-v", esp); !strings.Contains(out, "2 FATs, 32 bit entries") {
		t.Errorf("fsck.vfat takes it for something else than FAT32:\n%s", out)
	}
	for name, want := range l.files() {
		if got := run(t, "mcopy", "-i", esp, "::/"+name, "-"); got != string(want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
}

// GRUB's own checker accepts its scripts, and the header of a slot, which GRUB reads as a script.
func TestScriptsForGRUB(t *testing.T) {
	body, err := slot(
		7,
		K{Kernel: fill('k', 1000), Args: []string{"quiet", "console=ttyS0,115200n8", "modprobe.blacklist=a,b"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"grub.cfg": netConfig, "local.cfg": localConfig, "early": EarlyConfig,
		"local early": LocalEarlyConfig, "slot": string(body[:headerSize])} {
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("grub-script-check", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The places in the images agree: BIOS loads the first sector, that one the core's first sector, and that one the rest.
func TestBootCodeFindsItsCore(t *testing.T) {
	path, _, l := made(t, testSize)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	le := func(at, n int) (v int64) {
		for i := range n {
			v |= int64(b[at+i]) << (8 * i)
		}
		return v
	}
	core := le(kernelSector, 8) * Sector
	if core != loaderAt {
		t.Fatalf("the boot code loads sector %d", core/Sector)
	}
	rest, n := le(int(core)+blockList, 8)*Sector, le(int(core)+blockList+8, 2)
	if rest != core+Sector || n*Sector < int64(len(l.Core))-Sector ||
		!bytes.Equal(b[rest:rest+int64(len(l.Core))-Sector], l.Core[Sector:]) {
		t.Errorf("the core's rest is %d sectors at %d", n, rest)
	}
	if b[510] != 0x55 || b[511] != 0xaa || b[driveCheck] != 0x90 {
		t.Error("no boot sector")
	}
}

// memory is a disk that can stop at any sector. Later writes are lost.
type memory struct {
	data []byte
	left int // bytes until the power is cut; negative: never
}

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	if m.left >= 0 {
		p = p[:min(len(p), m.left/Sector*Sector)]
		m.left -= len(p)
		if m.left < Sector {
			copy(m.data[at:], p)
			return len(p), os.ErrDeadlineExceeded
		}
	}
	return copy(m.data[at:], p), nil
}

func (m *memory) Sync() error { return nil }

// whole returns the K of the slot that GRUB would start: the newer of those with a header.
func whole(t *testing.T, disk []byte) (Header, []byte) {
	t.Helper()
	var best Header
	var data []byte
	for i := range Slots {
		if h := ParseHeader(disk[SlotAt(i) : SlotAt(i)+Sector]); h.Sequence > best.Sequence {
			best, data = h, disk[SlotAt(i):SlotAt(i)+SlotSize]
		}
	}
	return best, data
}

// If the power is cut at any moment of a renewal, a complete K is started: the old one or the new one.
func TestRenewedWithoutAMomentBetween(t *testing.T) {
	disk := make([]byte, cacheAt)
	old := K{Kernel: fill('o', 5000), Initramfs: fill('O', 9000)}
	body, err := slot(1, old)
	if err != nil {
		t.Fatal(err)
	}
	copy(disk[SlotAt(0):], body)
	now := old
	for generation := range 4 {
		next := K{
			Kernel:    fill(byte('a'+generation), 4000+1000*generation),
			Initramfs: fill(byte('A'+generation), 7000),
			Args:      []string{"quiet"},
		}
		var headers [Slots]Header
		for i := range headers {
			headers[i] = ParseHeader(disk[SlotAt(i):])
		}
		writes, err := Renew(headers, next)
		if err != nil || len(writes) == 0 {
			t.Fatalf("%d writes, %v", len(writes), err)
		}
		var wire bytes.Buffer
		if err := Send(&wire, writes); err != nil {
			t.Fatal(err)
		}
		var before [Slots][]byte
		for i := range before {
			before[i] = bytes.Clone(disk[SlotAt(i) : SlotAt(i)+64<<10])
		}
		total := 0
		for _, w := range writes {
			total += len(w.Data)
		}
		for cut := 0; cut < total; cut += Sector {
			for i, was := range before {
				copy(disk[SlotAt(i):], was)
			}
			_, _ = Carry(&memory{data: disk, left: cut}, int64(len(disk)), bytes.NewReader(wire.Bytes()))
			h, data := whole(t, disk)
			if h.Digest != now.Digest() && h.Digest != next.Digest() {
				t.Fatalf("cut after %d bytes: a slot of neither", cut)
			}
			want := now
			if h.Digest == next.Digest() {
				want = next
			}
			if !bytes.Equal(data[headerSize:headerSize+len(want.Kernel)], want.Kernel) {
				t.Fatalf("cut after %d bytes: the slot that is started is not whole", cut)
			}
		}
		m := &memory{data: disk, left: -1}
		carry(t, m, int64(len(disk)), writes)
		if h, _ := whole(t, disk); h.Digest != next.Digest() || h.Sequence != uint64(generation+2) {
			t.Fatalf("after renewal: %+v", h)
		}
		now = next
	}
	var headers [Slots]Header
	for i := range headers {
		headers[i] = ParseHeader(disk[SlotAt(i):])
	}
	if writes, err := Renew(headers, now); err != nil || writes != nil {
		t.Errorf("the same K is written again: %d writes, %v", len(writes), err)
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	k := K{Kernel: fill('k', 5000), Initramfs: fill('i', 5000)}
	l := Loader{BootCode: fill('b', Sector), Core: fill('c', 5000)}
	for name, try := range map[string]func() error{
		"small disk": func() error { _, err := Medium(MinSize-Sector, l, k); return err },
		"no core":    func() error { _, err := Medium(MinSize, Loader{}, k); return err },
		"large K": func() error {
			_, err := Renew([Slots]Header{}, K{Kernel: fill('k', SlotSize)})
			return err
		},
		"quotes": func() error {
			_, err := Renew([Slots]Header{}, K{Args: []string{`dyndbg="file nbd.c +p"`}})
			return err
		},
		"write behind the end": func() error {
			var wire bytes.Buffer
			_ = Send(&wire, []Write{{At: 100, Data: fill('x', 10)}})
			_, err := Carry(&memory{data: make([]byte, 200), left: -1}, 105, &wire)
			return err
		},
		"list that breaks off": func() error {
			var wire bytes.Buffer
			_ = Send(&wire, []Write{{At: 0, Data: fill('x', 10)}})
			_, err := Carry(&memory{data: make([]byte, 200), left: -1}, 200, bytes.NewReader(wire.Bytes()[:26]))
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
