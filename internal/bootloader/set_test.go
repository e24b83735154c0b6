package bootloader

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pando/internal/hint"
	"pando/internal/netboot"
	"pando/internal/testkit/loaderkit"
)

// ipxe is a made-up build for UEFI on x86-64.
func ipxe(version string, digests bool) []byte {
	return loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_AMD64, version, digests).Bytes()
}

// files returns a new directory with these files.
func files(t *testing.T, data map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range data {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, imports string, dirs ...string) *Set {
	t.Helper()
	s, err := Open(imports, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sent returns the build that machines of a class are sent.
func sent(s *Set, class netboot.Class) Loader {
	for _, l := range s.List() {
		if l.Class == class {
			return l
		}
	}
	return Loader{}
}

func TestDirs(t *testing.T) {
	for _, tt := range []struct {
		named, program string
		want           []string
	}{
		{"/srv/ipxe", "/usr/local/bin/pando", []string{"/srv/ipxe"}},
		{"", "/usr/local/bin/pando", []string{"/usr/local/ipxe", "/usr/local/lib/pando/ipxe", PackageDir}},
		{"", "/src/build/bin/pando", []string{"/src/build/ipxe", "/src/build/lib/pando/ipxe", PackageDir}},
		{"", "", []string{PackageDir}},
	} {
		if got := Dirs(tt.named, tt.program); !slices.Equal(got, tt.want) {
			t.Errorf("Dirs(%q, %q) = %v, want %v", tt.named, tt.program, got, tt.want)
		}
	}
}

// The first directory is preferred, but a build that verifies digests is preferred to one that does not.
func TestPreferred(t *testing.T) {
	ours := files(t, map[string][]byte{"snponly.efi": ipxe("2.0.0", true), "readme": []byte("x")})
	newer := files(t, map[string][]byte{"snponly.efi": ipxe("2.1.0", true), "undionly.kpxe": loaderkit.BIOS()})
	older := files(t, map[string][]byte{"ipxe.efi": ipxe("1.0.0", false), "undionly.kpxe": []byte("one's own build")})
	for name, tt := range map[string]struct {
		dirs []string
		x64  string
		bios string // directory
	}{
		"ours":        {[]string{ours, older}, "2.0.0", older},
		"older first": {[]string{older, ours}, "2.0.0", older},
		"both verify": {[]string{ours, newer}, "2.0.0", newer},
		"older only":  {[]string{older}, "1.0.0", older},
		"nothing":     {[]string{filepath.Join(ours, "none")}, "", ""},
	} {
		s := open(t, filepath.Join(t.TempDir(), "none"), tt.dirs...)
		if got := sent(s, netboot.ClassX64); got.Version != tt.x64 || got.Imported {
			t.Errorf("%s: %+v, want %s", name, got.Build, tt.x64)
		}
		want := ""
		if tt.bios != "" {
			want = filepath.Join(tt.bios, "undionly.kpxe")
		}
		if got := sent(s, netboot.ClassBIOS); got.Path != want {
			t.Errorf("%s: BIOS is sent %q, want %q", name, got.Path, want)
		}
	}
}

func TestImport(t *testing.T) {
	pkg := files(t, map[string][]byte{
		"ipxe.efi": ipxe("1.0.0", false), "undionly.kpxe": loaderkit.BIOS(), "ipxe-arm64.efi": []byte("arm64"),
	})
	imports := filepath.Join(t.TempDir(), "data", ImportDir)
	s := open(t, imports, pkg)
	own := ipxe("2.0.0", true)
	l, err := s.Import(own)
	if err != nil || !l.Imported || !l.Digests || l.Version != "2.0.0" || l.Class != netboot.ClassX64 {
		t.Fatalf("%+v, %v", l.Build, err)
	}
	if l.Name != "ipxe.efi" || filepath.Dir(l.Path) != imports {
		t.Errorf("imported as %s: a site's DHCP server names ipxe.efi", l.Path)
	}
	if arm, err := s.Import(loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_ARM64, "2.0.0", true).Bytes()); err != nil ||
		arm.Name != "ipxe-arm64.efi" {
		t.Errorf("%s, %v", arm.Name, err)
	}
	if ia, err := s.Import(loaderkit.IPXE(pe.IMAGE_FILE_MACHINE_I386, "2.0.0", true).Bytes()); err != nil ||
		ia.Name != "snponly-ia32.efi" {
		t.Errorf("without a build of a package: %s, %v", ia.Name, err)
	}
	for _, s := range []*Set{s, open(t, imports, pkg)} { // also after a restart
		if got := s.File("ipxe.efi"); !bytes.Equal(got, own) {
			t.Errorf("sent are %d bytes", len(got))
		}
		if got := sent(s, netboot.ClassX64); !got.Imported || got.SHA256() != l.SHA256() {
			t.Errorf("%+v", got.Build)
		}
		if got := strings.Join(s.Sent(), " "); got != "ipxe-arm64.efi ipxe.efi snponly-ia32.efi undionly.kpxe" {
			t.Error(got)
		}
	}
	// An imported build is sent even where the package's can do more: somebody wanted it.
	if _, err := s.Import(ipxe("1.5.0", false)); err != nil || sent(s, netboot.ClassX64).Version != "1.5.0" {
		t.Errorf("%+v, %v", sent(s, netboot.ClassX64).Build, err)
	}
}

func TestFailedImportLosesNothing(t *testing.T) {
	pkg := files(t, map[string][]byte{"snponly.efi": ipxe("1.0.0", false)})
	imports := filepath.Join(t.TempDir(), ImportDir)
	s := open(t, imports, pkg)
	own := ipxe("2.0.0", true)
	if _, err := s.Import(own); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, []byte("text"), own[:len(own)-1], make([]byte, netboot.MaxLoader+1)} {
		if l, err := s.Import(bad); !errors.Is(err, netboot.ErrNotLoader) || l.Name != "" {
			t.Errorf("%d bytes: %+v, %v", len(bad), l.Build, err)
		}
	}
	// The directory cannot be written: a file stands in its place.
	other, _ := Open(filepath.Join(pkg, "snponly.efi", ImportDir), pkg)
	if _, err := other.Import(own); err == nil || sent(other, netboot.ClassX64).Version != "1.0.0" {
		t.Errorf("%+v, %v", sent(other, netboot.ClassX64).Build, err)
	}
	for _, s := range []*Set{s, open(t, imports, pkg)} {
		if !bytes.Equal(s.File("snponly.efi"), own) {
			t.Error("the build before is lost")
		}
	}
	if left, err := os.ReadDir(imports); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestDelete(t *testing.T) {
	pkg := files(t, map[string][]byte{"snponly.efi": ipxe("1.0.0", false)})
	imports := filepath.Join(t.TempDir(), ImportDir)
	s := open(t, imports, pkg)
	none := func(class netboot.Class) {
		t.Helper()
		if err := s.Delete(class); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(hint.Of(err), "loader list") {
			t.Errorf("%s: %v", class, err)
		}
	}
	none(netboot.ClassX64) // of the package
	none("efi-vax")
	for _, machine := range []uint16{pe.IMAGE_FILE_MACHINE_AMD64, pe.IMAGE_FILE_MACHINE_I386} {
		if _, err := s.Import(loaderkit.IPXE(machine, "2.0.0", true).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range []netboot.Class{netboot.ClassX64, netboot.ClassIA32} {
		if err := s.Delete(class); err != nil {
			t.Fatal(err)
		}
		none(class)
	}
	for _, s := range []*Set{s, open(t, imports, pkg)} {
		if got := s.List(); len(got) != 1 || got[0].Version != "1.0.0" || got[0].Imported ||
			got[0].Path != filepath.Join(pkg, "snponly.efi") {
			t.Errorf("%+v", s.Names())
		}
	}
}

// What a disk or a hand did to files is seen when they are read, and costs only these files.
func TestDamagedFiles(t *testing.T) {
	pkg := files(t, map[string][]byte{
		"snponly.efi": ipxe("1.0.0", false), "undionly.kpxe": nil, "ipxe.pxe": loaderkit.BIOS(),
	})
	whole := ipxe("2.0.0", true)
	for name, bad := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-1], "text": []byte("x"), "of another class": loaderkit.BIOS(),
	} {
		imports := files(t, map[string][]byte{"snponly.efi": bad})
		s, err := Open(imports, pkg)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(imports, "snponly.efi")) {
			t.Errorf("%s: %v", name, err)
		}
		if got := sent(s, netboot.ClassX64); got.Version != "1.0.0" || got.Imported {
			t.Errorf("%s: sent is %+v of %s", name, got.Build, got.Path)
		}
		if got := sent(s, netboot.ClassBIOS); got.Name != "ipxe.pxe" {
			t.Errorf("%s: BIOS is sent %q, and undionly.kpxe is empty", name, got.Name)
		}
		if l, err := s.Import(whole); err != nil || l.Version != "2.0.0" {
			t.Errorf("%s: another import: %+v, %v", name, l.Build, err)
		}
	}
}

// TestAsked: the longest name counts of those that are a beginning of the asked one.
func TestAsked(t *testing.T) {
	s := &Set{active: map[netboot.Class]Loader{
		netboot.ClassX64:  {Name: "ipxe.efi", Data: []byte("all")},
		netboot.ClassIA32: {Name: "ipxe.efi.signed", Data: []byte("signed")},
	}}
	for name, want := range map[string]string{
		"ipxe.efi": "all", "ipxe.efi.s": "all", "ipxe.efi.signed": "signed", "ipxe.efi.signedR": "signed",
		"": "", "ipxe": "", "a/ipxe.efi": "",
	} {
		if got := string(s.Asked(name)); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if s.File("ipxe.efi.s") != nil {
		t.Error("File takes what is not the whole name")
	}
}

// Of imports at the same time one is sent, the same that is on the disk.
func TestImportsAtTheSameTime(t *testing.T) {
	imports := filepath.Join(t.TempDir(), ImportDir)
	s := open(t, imports)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if _, err := s.Import(ipxe(fmt.Sprintf("2.0.%d", i), true)); err != nil {
				t.Error(err)
			}
			if i%4 == 3 {
				if err := s.Delete(netboot.ClassX64); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := sent(s, netboot.ClassX64), sent(open(t, imports), netboot.ClassX64); got.Version != want.Version {
		t.Errorf("sent is %q, on the disk %q", got.Version, want.Version)
	}
}
