package image

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"pando/internal/chunk"
)

var update = flag.Bool("update", false, "rewrite golden files")

func testManifest() Manifest {
	return Manifest{
		Format:       Format,
		Architecture: "amd64",
		Kernel:       Kernel{Release: "6.1.0-56-amd64", Object: chunk.Sum([]byte("kernel")), Size: 8247232},
		Drivers: []Driver{
			{
				Name:   "base",
				Object: chunk.Sum([]byte("base")),
				Size:   900000,
				For:    []string{"virtio_net"},
				PCI:    "1af4:1000,1041",
			},
			{Name: "net", Object: chunk.Sum([]byte("net")), Size: 5000000},
			{
				Name:      "igb",
				Object:    chunk.Sum([]byte("igb")),
				Size:      160000,
				InsteadOf: "net",
				For:       []string{"igb"},
				PCI:       "8086:1521,1533",
			},
			{
				Name:      "usb",
				Object:    chunk.Sum([]byte("usb")),
				Size:      900000,
				InsteadOf: "net",
				For:       []string{"r8152", "asix"},
			},
		},
		CommandLine: []string{"quiet", "console=ttyS0,115200n8"},
		Root:        Root{FileSystem: "erofs", Index: chunk.Sum([]byte("index")), Size: 720 << 20, ChunkSize: 64 << 10},
		Sizes:       Sizes{Stored: 260 << 20, Files: 31000},
	}
}

func TestManifestBytes(t *testing.T) {
	got, err := testManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/manifest.golden.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the manifest's bytes changed, which renames every version that is built again:\n%s", got)
	}
	back, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := back.Encode(); err != nil || !bytes.Equal(again, got) {
		t.Errorf("decoded and encoded again it differs: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := testManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"newer format":      {`"format": 1`, `"format": 2`, "upgrade it"},
		"unknown key":       {`"sizes"`, `"colour": 1, "sizes"`, "colour"},
		"no kernel":         {chunk.Sum([]byte("kernel")).String(), ``, "does not boot"},
		"bad digest":        {chunk.Sum([]byte("index")).String(), `sha256:12`, "not sha256:"},
		"architecture":      {`"amd64"`, `"vax"`, "architecture"},
		"release with path": {`"6.1.0-56-amd64"`, `"../x"`, "kernel.release"},
		"file system":       {`"erofs"`, `"ntfs"`, "root.file_system"},
		"size":              {`"size": 754974720`, `"size": 754974721`, "root.size"},
		"chunk size":        {`"chunk_size": 65536`, `"chunk_size": 1048577`, "root.chunk_size"},
		"driver twice":      {`"net"`, `"base"`, "drivers[1]"},
		"nobody's driver":   {`"instead_of": "net"`, `"instead_of": "igb"`, "drivers[2].instead_of"},
		"for nothing":       {`"r8152",`, `"asix",`, "drivers[3].for[1]"},
		"for a path":        {`"r8152"`, `"../x"`, "drivers[3].for[0]"},
		"devices' order":    {`8086:1521,1533`, `8086:1533,1521`, "drivers[2].pci"},
		"device twice":      {`8086:1521,1533`, `8086:1521 8086:1533`, "drivers[2].pci"},
		"no device":         {`8086:1521,1533`, `8086:1521,`, "drivers[2].pci"},
		"argument":          {`"quiet"`, `"a b"`, "command_line[0]"},
		"script":            {`"quiet"`, `"${x}"`, "not allowed"},
		"taken argument":    {`"quiet"`, `"pando.boot=1"`, "reserved for Pando"},
		"two documents":     {"\n}\n", "\n}\n{}", "decode manifest"},
		"cut off":           {"\n}\n", "", "decode manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(string(good), c.from, c.to, 1)
			if bad == string(good) {
				t.Fatalf("%q is not in the manifest", c.from)
			}
			if _, err := Decode([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	good, err := testManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("accepted, but cannot be encoded: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("encoded again it is refused: %v", err)
		}
	})
}
