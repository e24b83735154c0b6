package writelayer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/ext4"
	"pando/internal/fleet"
)

func TestLayerSize(t *testing.T) {
	const memory = 1000 << 20
	for limit, want := range map[string]int64{"50%": 500 << 20, "2g": 2 << 30, "100m": 100 << 20, "100M": 100 << 20,
		"65536k": 64 << 20, "33554432": 32 << 20, "1k": leastLayer} {
		if got, err := layerSize(limit, memory); err != nil || got != want&^4095 {
			t.Errorf("%s is %d, %v; want %d", limit, got, err, want)
		}
	}
	for _, limit := range []string{"", "%", "much", "-1g", "9999999999g"} {
		if got, err := layerSize(limit, memory); err == nil {
			t.Errorf("%q is %d", limit, got)
		}
	}
}

// A partition is used if it is empty or has a write layer. The name alone does not suffice if it has other content.
func TestLayerOn(t *testing.T) {
	for name, c := range map[string]struct {
		content, label string
		has, refused   bool
	}{
		"empty": {"", "", false, false}, "ours": {"ext4", fleet.WritePartition, true, false},
		"state": {"ext4", "pando-state", false, true},
		"data":  {"ext4", "", false, true}, "another": {"XFS", "", false, true},
	} {
		has, err := layerOn("/dev/sda1", c.content, c.label)
		if has != c.has || (err != nil) != c.refused {
			t.Errorf("%s: %v, %v", name, has, err)
		}
	}
}

func TestNotKept(t *testing.T) {
	v := string(fleet.Digest("sha256:" + strings.Repeat("a", 64)))
	other := "sha256:" + strings.Repeat("b", 64)
	for record, want := range map[string]string{v + "\nx\n": "", "": "it is not whole", v: "it is not " +
		"whole", v + "\ny\n": "Pando mounts it otherwise by now",
		other + "\nx\n": "it belongs to version " + fleet.Digest(other).Short()} {
		if got := notKept(record, v+"\nx\n"); got != want {
			t.Errorf("%q: %q, want %q", record, got, want)
		}
	}
}

// The node recognizes the write layer that it makes on a device.
func TestMakeLayer(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	f, err := os.Create(device)
	if err == nil {
		err = errors.Join(f.Truncate(64<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if has, err := mayWrite(device); err != nil || has {
		t.Errorf("an empty device: %v, %v", has, err)
	}
	for _, journal := range []bool{false, true, false} { // also over an earlier one
		if err := Make(device, ext4.Options{Label: fleet.WritePartition, Journal: journal}); err != nil {
			t.Fatal(err)
		}
		if has, err := mayWrite(device); err != nil || !has {
			t.Errorf("what was made is not taken for a write layer: %v", err)
		}
	}
}

func TestChosen(t *testing.T) {
	for list, want := range map[string]string{"lzo-rle lzo lz4 [zstd] ": "zstd", "[lzo]": "lzo", "": ""} {
		if got := chosen(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
