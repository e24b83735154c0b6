package tftp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestForeignPrograms reads files with the TFTP clients that administrators use.
func TestForeignPrograms(t *testing.T) {
	want := content(300_001)
	addr, done := running(t, &Server{Files: files(map[string][]byte{"boot/loader.efi": want})})
	port := fmt.Sprint(addr.Port)
	tests := []struct {
		tool string
		args func(file string) []string
	}{
		{"tftp", func(f string) []string { // tftp-hpa
			return []string{"tftp", "-4", "-m", "binary", "127.0.0.1", port, "-c", "get", "boot/loader.efi", f}
		}},
		{"tftp", func(f string) []string {
			return []string{"tftp", "-4", "-m", "octet", "127.0.0.1", port, "-c", "get", "/boot/loader.efi", f}
		}},
		{"atftp", func(f string) []string {
			return []string{
				"atftp",
				"--option",
				"blksize 1400",
				"--option",
				"tsize 1",
				"-g",
				"-r",
				"boot/loader.efi",
				"-l",
				f,
				"127.0.0.1",
				port,
			}
		}},
		{"atftp", func(f string) []string {
			return []string{
				"atftp",
				"--option",
				"windowsize 16",
				"--option",
				"blksize 1428",
				"-g",
				"-r",
				"boot/loader.efi",
				"-l",
				f,
				"127.0.0.1",
				port,
			}
		}},
		{"curl", func(f string) []string {
			return []string{
				"curl",
				"-sS",
				"--tftp-blksize",
				"1024",
				"-o",
				f,
				"tftp://127.0.0.1:" + port + "/boot/loader.efi",
			}
		}},
		{"busybox", func(f string) []string {
			return []string{"busybox", "tftp", "-b", "1468", "-g", "-r", "boot/loader.efi", "-l", f, "127.0.0.1", port}
		}},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s%d", tt.tool, i), func(t *testing.T) {
			if _, err := exec.LookPath(tt.tool); err != nil {
				t.Skipf("%s is not installed", tt.tool)
			}
			file := filepath.Join(t.TempDir(), "got")
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			args := tt.args(file)
			out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
			got, rerr := os.ReadFile(file)
			if err != nil || rerr != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v: %v, %v, %d bytes: %s", args, err, rerr, len(got), out)
			}
			x := finished(t, done)
			t.Logf("%d bytes in %s, %d retries", x.Bytes, x.Duration, x.Retries)
			if x.Err != nil || x.Bytes != int64(len(want)) {
				t.Errorf("transfer %+v", x)
			}
		})
	}
}
