package server

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/store"
)

// rewrite changes a file by change and keeps its times.
func rewrite(t *testing.T, path string, change func([]byte) []byte) (restore func()) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		time.Sleep(10 * time.Millisecond) // the kernel's clock for file times must advance
		if err := store.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	write(change(bytes.Clone(was)))
	return func() { write(was) }
}

func flipByte(b []byte) []byte { b[len(b)/2] ^= 1; return b }

// TestVersionThatIsNotWhole: an altered kernel or driver is never sent. The status lists a damaged version that a group
// boots until it is repaired.
func TestVersionThatIsNotWhole(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	m, version := s.addImage()
	n := s.node(1)
	n.exchange(netboot.IPXE)
	kernel, initramfs := urls(t, n.script())
	broken := func(want string) {
		t.Helper()
		st, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(st.Broken) > 0 {
			t.Errorf("broken: %+v", st.Broken)
		}
		if want != "" && (len(st.Broken) != 1 || st.Broken[0].Version != version || st.Broken[0].Do == "" ||
			!strings.Contains(st.Broken[0].Problem, want) || st.Broken[0].Groups[0] != "default") {
			t.Errorf("broken: %+v, want %q", st.Broken, want)
		}
	}
	broken("")
	for _, path := range []string{s.store.ObjectPath(m.Kernel.Object), s.store.ObjectPath(m.Drivers[0].Object)} {
		restore := rewrite(t, path, flipByte)
		broken("object")
		if path == s.store.ObjectPath(m.Kernel.Object) { // the script was sent before the change
			if status, _ := n.get(kernel); status == http.StatusOK {
				t.Error("an altered kernel was sent")
			}
		} else if status, _ := n.get(initramfs); status == http.StatusOK {
			t.Error("altered drivers were sent")
		}
		n.exchange(netboot.IPXE)
		if script := n.script(); strings.Contains(script, "initrd") {
			t.Errorf("it may boot:\n%s", script)
		}
		restore()
		broken("")
	}
	for _, path := range []string{s.store.ManifestPath(version), s.store.ObjectPath(m.Root.Index)} {
		restore := rewrite(t, path, flipByte)
		broken("version")
		restore()
		broken("")
	}
	was, err := os.ReadFile(s.store.ManifestPath(version))
	if err != nil {
		t.Fatal(err)
	}
	remove(t, s.store.ManifestPath(version))
	broken("manifest")
	if err := os.WriteFile(s.store.ManifestPath(version), was, 0o644); err != nil {
		t.Fatal(err)
	}
	n.exchange(netboot.IPXE)
	kernel, _ = urls(t, n.script())
	if status, body := n.get(kernel); status != http.StatusOK || len(body) == 0 {
		t.Errorf("the whole kernel: %d", status)
	}
}

// TestKernelForAnotherAddress: an object as large as a kernel is checked whoever requests it. A machine behind a router
// is not known by its address, nor one whose address changed after its script.
func TestKernelForAnotherAddress(t *testing.T) {
	s := startSite(t)
	kernel := bytes.Repeat([]byte("kernel "), 300_000)
	unlock, err := s.store.Lock(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	w := s.store.NewWriter()
	id, _, err := w.Put(t.Context(), kernel)
	if err = errors.Join(err, w.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.Close()
	unlock()
	s.addImage(func(m *image.Manifest) { m.Kernel.Object, m.Kernel.Size = id, int64(len(kernel)) })
	n := s.nodeAt(1, netip.MustParseAddr("127.0.0.44")) // no packet of it was seen
	path := "/o/" + id.Name()
	if status, body := n.get(path); status != http.StatusOK || !bytes.Equal(body, kernel) {
		t.Fatalf("the kernel: %d, %d bytes", status, len(body))
	}
	restore := rewrite(t, s.store.ObjectPath(id), flipByte)
	if status, body := n.get(path); status == http.StatusOK {
		t.Errorf("an altered kernel was sent, %d bytes", len(body))
	}
	restore()
	if status, _ := n.get(path); status != http.StatusOK {
		t.Errorf("whole again: %d", status)
	}
}
