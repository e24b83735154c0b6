package ext4

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// e2fsck accepts the file systems at sizes around those where another group begins, and they take little space at any
// size.
func TestMake(t *testing.T) {
	if _, err := exec.LookPath("e2fsck"); err != nil {
		t.Skipf("e2fsprogs is not there: %v", err)
	}
	for _, size := range []int64{Least, LeastWithJournal, 112 << 20, 128 << 20, 128<<20 + 4096, 128<<20 + 5<<20,
		1 << 30, 1<<30 + 12345, 300 << 30, 5 << 40} {
		for _, journal := range []bool{false, true} {
			if journal && size < LeastWithJournal {
				continue
			}
			t.Run(fmt.Sprintf("%d journal %v", size, journal), func(t *testing.T) {
				t.Parallel()
				one(t, size, journal)
			})
		}
	}
}

func one(t *testing.T, size int64, journal bool) {
	path := filepath.Join(t.TempDir(), "device")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	junk := make([]byte, 4<<20)
	for i := range junk {
		junk[i] = 0xa5
	}
	if _, err := f.Write(junk); err != nil { // old content of the device
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Skipf("files of %d bytes are too large here: %v", size, err)
	}
	if err := Make(f, size, Options{Label: "pando-write", Journal: journal, Now: 1.7e9}); err != nil {
		t.Fatal(err)
	}
	if size <= 2<<30 { // e2fsck reads every group
		if out, err := exec.Command("e2fsck", "-fn", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := exec.Command("dumpe2fs", "-h", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "pando-write") ||
		strings.Contains(string(out), "has_journal") != journal {
		t.Errorf("%v\n%s", err, out)
	}
}

// A name that is too long and a device that is too small are refused before anything is written.
func TestMakeRefuses(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "device"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, err := range map[string]error{"small": Make(f, Least-1, Options{}),
		"no journal": Make(f, LeastWithJournal-1, Options{Journal: true}),
		"name":       Make(f, Least, Options{Label: "a name of 17 byte"})} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("something was written: %v, %v", info, err)
	}
}
