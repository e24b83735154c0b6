package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// stubKernel is a kernel that reads initrd= arguments when UEFI starts it.
const stubKernel = "MZ EFI stub: Loaded initrd from command line option, and the rest"

func withStub(s *site) func(*image.Manifest) {
	return func(m *image.Manifest) {
		m.Kernel.Object, m.Kernel.Size = s.put(stubKernel), int64(len(stubKernel))
	}
}

// verifying is a machine under UEFI whose loader verifies digests.
func (s *site) verifying(i byte) *node {
	n := s.nodeAt(i, loopback(i))
	n.digests = "&platform=efi&sha256=1"
	return n
}

var objectURL = regexp.MustCompile(`imgfetch --name (\S+)(?: --timeout \d+)? (http://\S+)/o/([0-9a-f]{64})`)

// loadVerified plays the loader: it fetches what its script names from the server, with a report that names neighbours.
// It returns the boot's configuration, and the kernel file that the node finds.
func (n *node) loadVerified(script string, from string, refused string) (cfg api.BootConfig, file []byte) {
	n.t.Helper()
	id := regexp.MustCompile(`/boot/([0-9a-f]{16})/trust`).FindStringSubmatch(script)
	if id == nil {
		n.t.Fatalf("script verifies nothing:\n%s", script)
	}
	of := "/boot/" + id[1]
	status, cpio := n.get(of + "/trust")
	if status != 200 {
		n.t.Fatalf("trust cpio: %d %s", status, cpio)
	}
	cfg = trust(n.t, cpio)
	if strings.Contains(script, of+"/head") {
		status, head := n.get(of + "/head")
		if status != 200 {
			n.t.Fatalf("head: %d %s", status, head)
		}
		file = append(file, head...)
	}
	for _, part := range []string{"k", "i"} {
		if from == "s" {
			want := map[string]string{"k": "BOOT_IMAGE=linux", "i": "initramfs"}[part]
			for _, m := range objectURL.FindAllStringSubmatch(script, -1) {
				if m[1] != want || !strings.HasSuffix(m[2], fmt.Sprint(":", n.ports.Data)) {
					continue
				}
				status, data := n.get("/o/" + m[3])
				if sum := sha256.Sum256(data); status != 200 || hex.EncodeToString(sum[:]) != m[3] {
					n.t.Fatalf("%s: %d, %d bytes", m[1], status, len(data))
				}
				file = append(file, data...)
			}
		}
		if status, b := n.get(of + "/sources?part=" + part + "&from=" + from + "&refused=" + refused); status != 204 {
			n.t.Fatalf("report: %d %s", status, b)
		}
	}
	return cfg, file
}

// serve reports that a node serves its kernel and initramfs.
func (n *node) serve(cfg api.BootConfig, resp api.RegisterResponse, e trace.Event) {
	n.t.Helper()
	report := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{e}}
	if e := n.post("/v1/node/events", "Bearer "+resp.Session, report, nil); e != nil {
		n.t.Fatal(e, e.Hint)
	}
}

// servesOf is the event by which a node says that it serves what it was started with.
func servesOf(cfg api.BootConfig) trace.Event {
	return trace.Event{Stage: trace.Device, Kind: trace.Info, Attrs: map[string]string{trace.AttrKernelPort: "8481",
		trace.AttrPrefix: "24", trace.AttrServedKernel: cfg.KernelFile[0].Object,
		trace.AttrServedInitramfs: cfg.KernelFile[1].Object}}
}

// A machine that verifies digests gets kernel and initramfs as objects, and with them the file that it serves to
// others. The next machine is sent to it, and its timeline says so; after the node's shutdown, or with the setting
// "servers", machines load from the server.
func TestKernelFromNeighbour(t *testing.T) {
	s := startSite(t)
	m, _ := s.addImage(withStub(s))
	first := s.verifying(1)
	first.exchange(netboot.IPXE)
	script := first.script()
	if strings.Contains(script, ":8481/") {
		t.Errorf("nobody serves yet:\n%s", script)
	}
	cfg, file := first.loadVerified(script, "s", "")
	checkKernelFile(t, m, cfg, file)
	resp := first.register(cfg)
	first.serve(cfg, resp, servesOf(cfg))

	second := s.verifying(2)
	second.exchange(netboot.IPXE)
	script = second.script()
	if want := "http://127.0.3.1:8481/o/" + m.Kernel.Object.Name(); !strings.Contains(script, want) {
		t.Fatalf("the script does not name %s:\n%s", want, script)
	}
	second.wait(3 * time.Second)
	cfg2, _ := second.loadVerified(script, "0", "")
	second.register(cfg2)
	p := s.progress(cfg2.Boot)
	if got, want := p.Bytes[trace.SourceNeighbour], m.Kernel.Size+cfg2.KernelFile[1].Size; got != want ||
		p.Bytes[trace.SourceK] != 0 {
		t.Errorf("bytes: %v, want %d from the neighbour", p.Bytes, want)
	}
	want := []string{"dhcp begin", "dhcp end", "script begin", "script end", "kernel begin", "kernel end",
		"initramfs begin", "initramfs end"}
	if got := s.eventsOf(cfg2.Boot); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events: %v, want %v", got, want)
	}

	s.restart() // its first report tells the server again
	first.http.CloseIdleConnections()
	first.serve(cfg, resp, trace.Event{Stage: "desktop", Kind: trace.End})
	fourth := s.verifying(4)
	fourth.exchange(netboot.IPXE)
	if script := fourth.script(); !strings.Contains(script, "http://127.0.3.1:8481/o/") {
		t.Errorf("after a restart of the server nobody serves:\n%s", script)
	}

	servers := fleet.FromServers
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.KernelFrom = &servers
		return errors.Join(err, tx.PutGroup(g))
	})
	third := s.verifying(3)
	third.exchange(netboot.IPXE)
	if script := third.script(); strings.Contains(script, "sha256sum") {
		t.Errorf("its group loads from servers:\n%s", script)
	}
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.KernelFrom = nil
		return errors.Join(err, tx.PutGroup(g))
	})
	first.serve(cfg, resp, trace.Event{Stage: trace.Shutdown, Kind: trace.End})
	if script := third.script(); strings.Contains(script, ":8481/") {
		t.Errorf("nobody serves any more:\n%s", script)
	}
}

// checkKernelFile checks that head, kernel and initramfs are a file of an archive, and that the initramfs then ends
// the archive and goes on with its parts.
func checkKernelFile(t *testing.T, m image.Manifest, cfg api.BootConfig, file []byte) {
	t.Helper()
	var size int
	if _, err := fmt.Sscanf(string(file[54:62]), "%x", &size); err != nil {
		t.Fatal(err)
	}
	head := 110 + len(api.KernelPath) + 1
	head += -head & 3
	if name := string(file[110 : 110+len(api.KernelPath)]); name != api.KernelPath || size != len(file)-head ||
		size%4 != 0 {
		t.Errorf("file %q of %d bytes, want %d", name, size, len(file)-head)
	}
	content := file[head:]
	if !bytes.HasPrefix(content, []byte(stubKernel+"070701")) {
		t.Errorf("the file begins with %.100q", content)
	}
	k := cfg.KernelFile
	if len(k) != 2 || k[0] != (api.KernelObject{Object: m.Kernel.Object.Name(), Size: m.Kernel.Size}) ||
		k[0].Size+k[1].Size != int64(size) {
		t.Fatalf("boot.json: %+v", k)
	}
	if sum := sha256.Sum256(content[k[0].Size:]); hex.EncodeToString(sum[:]) != k[1].Object {
		t.Errorf("the initramfs is not %s", k[1].Object)
	}
	if !bytes.Contains(content, []byte("TRAILER!!!")) || !bytes.Contains(content, []byte("drivers!!!")) {
		t.Errorf("the initramfs has no end of an archive, or no drivers")
	}
}

// A loader says by itself whether it verifies digests: a machine that has not tried gets a script that tries. Loaders
// that do not, and kernels that do not read initrd= arguments, boot as before.
func TestLoaderIsProbed(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.nodeAt(1, loopback(1))
	n.exchange(netboot.IPXE)
	for digests, want := range map[string][]string{
		"&platform=efi&sha256=":     {"sha256sum --set sum:hexraw probe", "chain --replace"},
		"&platform=efi&sha256=0":    {"kernel --name BOOT_IMAGE=linux", "/initramfs || goto failed"},
		"&platform=efi":             {"kernel --name BOOT_IMAGE=linux", "/initramfs || goto failed"},
		"&platform=efi&sha256=1":    {"initrd=trust initrd=initramfs ", "sha256sum --set sum:hexraw initramfs"},
		"&platform=pcbios&sha256=1": {"initrd=trust initrd=initramfs ", "sha256sum --set sum:hexraw initramfs"},
	} {
		n.digests = digests
		script := n.script()
		for _, w := range want {
			if !strings.Contains(script, w) {
				t.Errorf("%s: no %q in\n%s", digests, w, script)
			}
		}
		if strings.Contains(script, "/head") {
			t.Errorf("%s: its kernel does not read initrd= arguments", digests)
		}
	}
}

// Reports that are not this machine's, or name who was not named, change nothing.
func TestSourceReportsAreChecked(t *testing.T) {
	s := startSite(t)
	s.addImage(withStub(s))
	n := s.verifying(1)
	n.exchange(netboot.IPXE)
	id := regexp.MustCompile(`/boot/([0-9a-f]{16})/trust`).FindStringSubmatch(n.script())[1]
	for query, want := range map[string]int{
		"part=k&from=0&refused=":  400,
		"part=k&from=s&refused=3": 400,
		"part=x&from=s&refused=":  400,
		"":                        400,
		"part=k&from=s&refused=":  204,
	} {
		if status, b := n.get("/boot/" + id + "/sources?" + query); status != want {
			t.Errorf("%s: %d %s, want %d", query, status, b, want)
		}
	}
	other := s.verifying(2)
	for path, want := range map[string]int{"sources?part=k&from=s&refused=": 401, "trust": 401} {
		if status, b := other.get("/boot/" + id + "/" + path); status != want {
			t.Errorf("another machine's %s: %d %s, want %d", path, status, b, want)
		}
	}
	if status, _ := n.get("/boot/" + strings.Repeat("0", 16) + "/head"); status != 404 {
		t.Errorf("head of no boot: %d", status)
	}
	s.restart() // the server has forgotten what the script named
	n.http.CloseIdleConnections()
	for _, path := range []string{"sources?part=k&from=s&refused=", "head"} {
		if status, b := n.get("/boot/" + id + "/" + path); status != 404 {
			t.Errorf("%s after a restart: %d %s", path, status, b)
		}
	}
}
