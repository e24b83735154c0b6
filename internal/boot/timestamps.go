package boot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// timestampsFile is whether TCP stamps the time on each segment (RFC 7323; the kernel's ip-sysctl.rst), of the
// network namespace of the thread that opens it.
const timestampsFile = "/proc/sys/net/ipv4/tcp_timestamps"

// timestampsKept is what it was before the boot, in the run directory.
const timestampsKept = "tcp-timestamps"

// LeaveOutTimestamps has connections that are made from now on leave out the time stamps of TCP: 12 bytes of each
// segment, and of each acknowledgement. What they are for, sequence numbers that come round and more samples of the
// round trip, takes longer connections and faster links than a boot has (ADR 0045). dir keeps what was set; a
// second call changes nothing.
func LeaveOutTimestamps(dir string) error {
	kept := filepath.Join(dir, timestampsKept)
	if _, err := os.Stat(kept); err == nil {
		return nil
	}
	was, err := os.ReadFile(timestampsFile)
	if err == nil {
		err = os.WriteFile(kept, bytes.TrimSpace(was), 0o600)
	}
	if err == nil {
		err = os.WriteFile(timestampsFile, []byte("0"), 0)
	}
	if err != nil {
		return fmt.Errorf("leave out the time stamps of TCP: %w", err)
	}
	return nil
}

// RestoreTimestamps ends what LeaveOutTimestamps began. What the system below root says about them is left to it:
// by now it has been set.
func RestoreTimestamps(dir, root string) error {
	kept := filepath.Join(dir, timestampsKept)
	was, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !saysTimestamps(root) {
		err = os.WriteFile(timestampsFile, was, 0)
	}
	if err = errors.Join(err, os.Remove(kept)); err != nil {
		return fmt.Errorf("restore the time stamps of TCP: %w", err)
	}
	return nil
}

// saysTimestamps tells whether a system has them among the settings that it makes when it boots (sysctl.d(5)).
func saysTimestamps(root string) bool {
	files := []string{filepath.Join(root, "etc/sysctl.conf")}
	for _, dir := range []string{"etc", "run", "usr/local/lib", "usr/lib"} {
		found, _ := filepath.Glob(filepath.Join(root, dir, "sysctl.d/*.conf"))
		files = append(files, found...)
	}
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.Contains(line, "tcp_timestamps") {
				return true
			}
		}
	}
	return false
}
