package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stamped is what the setting is, in the namespace of the test.
func stamped(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(timestampsFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestTimestampsAreLeftOutUntilRestored(t *testing.T) {
	inNetns(t)
	was, dir := stamped(t), t.TempDir()
	if was == "0" {
		t.Fatal("a new namespace has none to leave out")
	}
	for range 2 { // the second changes nothing
		if err := LeaveOutTimestamps(dir); err != nil {
			t.Fatal(err)
		}
		if got := stamped(t); got != "0" {
			t.Errorf("left out: %s", got)
		}
	}
	for range 2 {
		if err := RestoreTimestamps(dir, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if got := stamped(t); got != was {
			t.Errorf("restored: %s, was %s", got, was)
		}
	}
}

// A system that has them in its settings has made those by the time.
func TestTimestampsThatASystemSetsAreItsOwn(t *testing.T) {
	inNetns(t)
	was := stamped(t)
	for name, c := range map[string]struct {
		file, text string
		own        bool
	}{
		"set":          {"etc/sysctl.d/50-tcp.conf", "net.ipv4.tcp_timestamps = 0\n", true},
		"with slashes": {"usr/lib/sysctl.d/tcp.conf", "-net/ipv4/tcp_timestamps=0\n", true},
		"of the group": {"run/sysctl.d/zz-pando.conf", "vm.swappiness=10\nnet.ipv4.tcp_timestamps=0\n", true},
		"of old":       {"etc/sysctl.conf", "net.ipv4.tcp_timestamps=0", true},
		"a comment":    {"etc/sysctl.conf", " # net.ipv4.tcp_timestamps=0\n", false},
		"another one":  {"etc/sysctl.d/50-tcp.conf", "net.ipv4.tcp_sack=0\n", false},
		"no such file": {"etc/sysctl.d/50-tcp.conf.bak", "net.ipv4.tcp_timestamps=0\n", false},
	} {
		dir, root := t.TempDir(), t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, c.file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := LeaveOutTimestamps(dir); err != nil {
			t.Fatal(err)
		}
		if err := RestoreTimestamps(dir, root); err != nil {
			t.Fatal(err)
		}
		if got := stamped(t); (got == "0") != c.own {
			t.Errorf("%s: the setting is %s", name, got)
		}
		if err := os.WriteFile(timestampsFile, []byte(was), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// What cannot be set is said, with what it was for.
func TestTimestampsNeedTheRunDirectory(t *testing.T) {
	inNetns(t)
	was := stamped(t)
	err := LeaveOutTimestamps(filepath.Join(t.TempDir(), "gone"))
	if err == nil || !strings.Contains(err.Error(), "time stamps of TCP") || stamped(t) != was {
		t.Errorf("error %v, setting %s, was %s", err, stamped(t), was)
	}
}
