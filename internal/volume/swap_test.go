package volume

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// swapSite is a directory of swap space.
type swapSite struct {
	*Swaps
	site
}

func newSwapSite(t *testing.T) *swapSite {
	t.Helper()
	s := newSite(t)
	swaps, err := OpenSwaps(filepath.Join(s.path, "swap"), nil)
	s.must(err)
	return &swapSite{swaps, site{t: t}}
}

// at serves the swap space of a boot on a port. With used, the node has pages in it.
func (s *swapSite) at(boot string, used bool) (url string, ends chan error) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.t.Cleanup(func() { l.Close() })
	over := make(chan error, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); over <- s.Swaps.Serve(s.t.Context(), "pc001", boot, 64*mib, used, c) }()
		}
	}()
	return "nbd://" + l.Addr().String() + "/volume", over
}

// files returns the names in the directory.
func (s *swapSite) files() string {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir.path, "*"+swapSuffix))
	s.must(err)
	for i, f := range all {
		all[i] = filepath.Base(f)
	}
	return strings.Join(all, " ")
}

// kill kills the daemon.
func (s *swapSite) kill() {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir.path, "pc001.pid"))
	s.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	s.must(err)
	s.must(unix.Kill(pid, unix.SIGKILL))
}

func (s *swapSite) detached() {
	s.t.Helper()
	s.wait("detached", func() bool { return !s.dir.of("pc001").attached() })
}

// Pages of a boot survive when the daemon is killed, without a flush. Another boot cannot read them, and after it the
// first boot cannot either.
func TestSwapIsOfOneBoot(t *testing.T) {
	s := newSwapSite(t)
	url, ends := s.at("b1", false)
	h := s.held(url)
	h.write(7, 0, mib)
	s.kill()
	<-ends
	again, _ := s.at("b1", true)
	s.client(again, "read -P 7 0 1M", "read -P 0 1M 63M")
	s.detached()
	if st, err := os.Stat(filepath.Join(s.dir.path, s.files())); err != nil || st.Mode().Perm() != 0o600 ||
		st.Size() != 64*mib {
		t.Errorf("%v, %v: want one file of 64 MiB that only root reads", st, err)
	}

	fresh, _ := s.at("b2", false)
	s.client(fresh, "read -P 0 0 64M", "write -P 2 0 64k")
	s.detached()
	if got, want := s.files(), "pc001@b2@"+s.host+swapSuffix; got != want {
		t.Errorf("files: %s, want %s", got, want)
	}
	s.isLost("b1")
	begun, _ := s.at("b2", false) // it has not used the space yet
	s.client(begun, "read -P 0 0 64M")
}

// isLost fails unless a boot gets ErrLost.
func (s *swapSite) isLost(boot string) {
	s.t.Helper()
	url, ends := s.at(boot, true)
	c, err := net.Dial("tcp", strings.Split(url, "/")[2])
	s.must(err)
	defer c.Close()
	if err := <-ends; !errors.Is(err, ErrLost) || s.Has("pc001", boot) {
		s.t.Errorf("swap space of boot %s: %v, want that it is lost", boot, err)
	}
}

// Pages that were written in an earlier boot of the server's machine may be incomplete: no node gets them, and the next
// server removes them.
func TestSwapIsLostWithTheMachine(t *testing.T) {
	s := newSwapSite(t)
	url, _ := s.at("b1", false)
	s.client(url, "write -P 7 0 1M")
	s.detached()
	now := s.host
	s.host = "the boot after"
	s.isLost("b1")
	s.host = now
	if !s.Has("pc001", "b1") {
		t.Fatal("nothing was restarted, and it is gone")
	}
	s.must(os.Rename(s.file("pc001", "b1"), filepath.Join(s.dir.path, "pc001@b1@the-boot-before.swap")))
	_, err := OpenSwaps(s.dir.path, nil)
	s.must(err)
	if got := s.files(); got != "" {
		t.Errorf("a new server leaves %s", got)
	}
}

// Swap space has a fixed size, one connection at a time has it, and blocks that a node frees are freed on the server.
func TestSwapIsBounded(t *testing.T) {
	s := newSwapSite(t)
	url, ends := s.at("b1", false)
	if out, err := exec.Command("qemu-io", "-f", "raw", "-c", "write -P 1 64M 4k", url).CombinedOutput(); err == nil &&
		!strings.Contains(string(out), "error") {
		t.Errorf("a write behind its end: %s", out)
	}
	s.detached()
	s.client(url, "write -P 1 0 32M")
	s.detached()
	first, _ := s.at("b1", true)
	s.held(first)
	s.wait("attached", func() bool { return s.dir.of("pc001").attached() })
	again, _ := s.at("b1", true)
	s.client(again, "read -P 1 0 32M", "discard 0 32M")
	s.detached()
	var st unix.Stat_t
	s.must(unix.Stat(s.file("pc001", "b1"), &st))
	if got := st.Blocks * 512; got > 4*mib {
		t.Errorf("%d bytes are used of the disk after everything was freed", got)
	}
	for range 2 {
		<-ends
	}
}

// Unwanted swap space is removed, unless it is attached.
func TestSwapIsRemoved(t *testing.T) {
	s := newSwapSite(t)
	url, _ := s.at("b1", false)
	s.client(url, "write -P 1 0 64k")
	s.detached()
	s.must(s.Prune(func(node, boot string) bool { return node == "pc001" && boot == "b1" }))
	if s.files() == "" {
		t.Error("what is wanted was removed")
	}
	attached, _ := s.at("b1", true)
	h := s.held(attached)
	s.wait("attached", func() bool { return s.dir.of("pc001").attached() })
	s.must(s.Prune(func(string, string) bool { return false }))
	if s.files() == "" {
		t.Error("what is attached was removed")
	}
	h.Close()
	s.detached()
	s.must(s.Prune(func(string, string) bool { return false }))
	if got := s.files(); got != "" {
		t.Errorf("%s is left", got)
	}
	s.client(url, "write -P 1 0 64k")
	s.detached()
	s.must(s.Remove(t.Context(), "pc001"))
	if got := s.files(); got != "" {
		t.Errorf("%s is left of a node that was deleted", got)
	}
}
