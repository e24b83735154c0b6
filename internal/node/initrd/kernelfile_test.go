package initrd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
)

// A node serves the file that its boot loader left, if it is as large as the server said, and the memory has room.
func TestKeptKernel(t *testing.T) {
	const memory = 1 << 20
	path := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(path, make([]byte, 30_000), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("ab", 32)
	good := []api.KernelObject{{Object: id, Size: 20_000}, {Object: id, Size: 10_000}}
	k := keptKernel(path, good, memory)
	if k == nil || len(k.Objects) != 2 || k.Objects[1].Size != 10_000 || k.Objects[0].ID != id {
		t.Fatalf("%+v", k)
	}
	k.File.Close()
	for name, x := range map[string]struct {
		path    string
		objects []api.KernelObject
		memory  int64
	}{
		"no file":          {path + "x", good, memory},
		"nothing promised": {path, nil, memory},
		"little memory":    {path, good, 400_000},
		"cut off":          {path, []api.KernelObject{{Object: id, Size: 20_000}, {Object: id, Size: 10_001}}, memory},
		"no object":        {path, []api.KernelObject{{Object: "ab", Size: 30_000}}, memory},
		"a negative size":  {path, []api.KernelObject{{Object: id, Size: 30_001}, {Object: id, Size: -1}}, memory},
	} {
		if k := keptKernel(x.path, x.objects, x.memory); k != nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
}
