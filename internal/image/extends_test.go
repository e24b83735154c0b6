package image

import (
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

func TestExtensionManifest(t *testing.T) {
	base := fleet.Digest(chunk.Sum([]byte("base")).String())
	m := Manifest{
		Format:       Format,
		Architecture: "amd64",
		Root:         Root{FileSystem: Erofs, Index: chunk.Sum([]byte("x")), Size: 4096, ChunkSize: 4096},
		Extends:      &Extends{Name: "tools", Base: base},
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(data); err != nil || got.Fits(base) != nil || got.Fits(Version(data)) == nil {
		t.Errorf("%+v, %v", got.Extends, err)
	}
	for want, change := range map[string]func(*Manifest){
		"extends.name":  func(m *Manifest) { m.Extends = &Extends{Name: "../x", Base: base} },
		"extends.base":  func(m *Manifest) { m.Extends = &Extends{Name: "x", Base: "sha256:1"} },
		"no kernel":     func(m *Manifest) { m.Kernel.Release = "6.1" },
		"no drivers":    func(m *Manifest) { m.Drivers = []Driver{{Name: "base"}} },
		"does not boot": func(m *Manifest) { m.Extends, m.Kernel.Release = nil, "6.1" },
	} {
		bad := m
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
