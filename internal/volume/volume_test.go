package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/nbd"
)

const mib = 1 << 20

// site is a directory of volumes, with a port for each requested volume.
type site struct {
	*Dir
	t     *testing.T
	serve sync.WaitGroup
}

func newSite(t *testing.T) *site {
	t.Helper()
	for _, p := range []string{"qemu-storage-daemon", "qemu-img", "qemu-io", "mke2fs"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
	s := &site{Dir: Open(filepath.Join(t.TempDir(), strings.Repeat("long", 30)), nil), t: t}
	t.Cleanup(s.serve.Wait)
	return s
}

// url serves a volume on a port. ends receives how each connection ended.
func (s *site) url(ctx context.Context, name string) (url string, ends chan error) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	ends = make(chan error, 16)
	s.serve.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.serve.Go(func() { defer c.Close(); ends <- s.Serve(ctx, name, Want{Size: 64 * mib}, c) })
		}
	})
	return "nbd://" + l.Addr().String() + "/" + "volume", ends
}

// client runs commands of qemu-io on a volume.
func (s *site) client(url string, commands ...string) string {
	s.t.Helper()
	args := []string{"-f", "raw", "-t", "none"}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := exec.Command("qemu-io", append(args, url)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		s.t.Errorf("%v: %v\n%s", commands, err, out)
	}
	return string(out)
}

// holder is a connection that keeps the volume attached.
type holder struct {
	net.Conn
	t *testing.T
}

func (s *site) held(url string) holder {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.Split(url, "/")[2])
	if err == nil {
		_, err = nbd.Enter(c, "volume")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return holder{c, s.t}
}

// write writes n bytes of a value at off, and waits for the answer.
func (h holder) write(value byte, off uint64, n int) {
	h.t.Helper()
	b := binary.BigEndian.AppendUint32(nil, 0x25609513)
	b = binary.BigEndian.AppendUint32(b, 1) // a write without the FUA flag
	b = binary.BigEndian.AppendUint64(b, 1)
	b = binary.BigEndian.AppendUint64(b, off)
	b = append(binary.BigEndian.AppendUint32(b, uint32(n)), bytes.Repeat([]byte{value}, n)...)
	_, err := h.Write(b)
	answer := make([]byte, 16)
	if err == nil {
		_, err = io.ReadFull(h, answer)
	}
	if err != nil || binary.BigEndian.Uint32(answer[4:]) != 0 {
		h.t.Fatalf("write: %v, %x", err, answer)
	}
}

func (s *site) wait(what string, good func() bool) {
	s.t.Helper()
	for range 500 {
		if good() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatalf("%s: not within 10 s", what)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Acknowledged writes survive when the daemon is killed, without a flush. A volume is sparse, and keeps its content.
func TestWhatWasWrittenOutlivesTheDaemon(t *testing.T) {
	s := newSite(t)
	url, ends := s.url(t.Context(), "pc001")
	h := s.held(url)
	h.write(7, 0, mib)
	h.write(9, 40*mib, 64<<10)
	b, err := os.ReadFile(filepath.Join(s.path, "pc001.pid"))
	s.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	s.must(err)
	s.must(unix.Kill(pid, unix.SIGKILL))
	<-ends
	s.client(url, "read -P 7 0 1M", "read -P 9 40M 64k", "read -P 0 10M 1M")
	i, err := s.read(t.Context(), "pc001")
	if err != nil || i.Size != 64*mib || i.Used > 4*mib {
		t.Errorf("%+v, %v: want 64 MiB of which little is used", i, err)
	}
	if out, err := exec.Command("qemu-img", "check", s.file("pc001")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The latest connection has the volume, and the one before cannot write any more.
func TestOneAtATime(t *testing.T) {
	s := newSite(t)
	url, ends := s.url(t.Context(), "pc001")
	s.held(url)
	s.wait("attached", func() bool { return s.of("pc001").attached() })
	s.client(url, "write -P 1 0 64k")
	if err := <-ends; !errors.Is(err, ErrTaken) {
		t.Errorf("the first connection ended with %v", err)
	}
	for range 2 { // an attached volume cannot be reset or replaced
		s.held(url)
		s.wait("attached", func() bool { return s.of("pc001").attached() })
	}
	s.wait("attached", func() bool { return s.of("pc001").attached() })
	for what, err := range map[string]error{"reset": s.Reset(t.Context(), "pc001"),
		"restore":    s.Restore(t.Context(), "pc001", "x"),
		"copy to it": s.Copy(t.Context(), "other", "pc001")} {
		if !errors.Is(err, ErrAttached) {
			t.Errorf("%s: %v, want that it is attached", what, err)
		}
	}
}

// Snapshots are made while a node uses the volume, which goes on after a pause. Copies and resets replace whole
// volumes.
func TestSnapshotCopyReset(t *testing.T) {
	s := newSite(t)
	url, _ := s.url(t.Context(), "pc001")
	s.client(url, "write -P 1 0 1M")
	s.must(s.Snapshot(t.Context(), "pc001", "before"))
	s.client(url, "write -P 2 0 1M")
	s.must(s.Copy(t.Context(), "pc001", "pc002"))
	s.wait("detached", func() bool { return !s.of("pc001").attached() })
	s.must(s.Restore(t.Context(), "pc001", "before"))
	s.client(url, "read -P 1 0 1M")
	other, _ := s.url(t.Context(), "pc002")
	s.client(other, "read -P 2 0 1M")
	all, err := s.List(t.Context())
	if err != nil || len(all) != 2 || len(all[0].Snapshots) != 1 || all[0].Snapshots[0].Name != "before" ||
		len(all[1].Snapshots) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	s.wait("detached", func() bool { return !s.of("pc001").attached() })
	s.must(s.Reset(t.Context(), "pc001"))
	s.client(url, "read -P 0 0 1M")
	for what, err := range map[string]error{"snapshot": s.Snapshot(t.Context(), "none", "x"),
		"reset": s.Reset(t.Context(), "none"),
		"copy":  s.Copy(t.Context(), "none", "pc003")} {
		if !errors.Is(err, ErrNone) {
			t.Errorf("%s of no volume: %v", what, err)
		}
	}
}

// A volume grows to the wanted size and never shrinks. It is made with its file system.
func TestVolumesAreMadeAndGrow(t *testing.T) {
	s := newSite(t)
	for _, want := range []Want{{Size: 512 * mib, FileSystem: "ext4"}, {Size: 600 * mib}, {Size: 512 * mib}} {
		s.must(
			s.alone(
				t.Context(),
				"pc001",
				false,
				func(ctx context.Context) error { return s.ensure(ctx, "pc001", want) },
			),
		)
	}
	i, err := s.read(t.Context(), "pc001")
	if err != nil || i.Size != 600*mib || i.Used > 64*mib {
		t.Errorf("%+v, %v", i, err)
	}
	raw := filepath.Join(t.TempDir(), "raw")
	s.must(run(t.Context(), "qemu-img", "convert", "-O", "raw", s.file("pc001"), raw))
	s.must(run(t.Context(), "e2fsck", "-fn", raw))
}
