package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/media"
	"pando/internal/output"
)

// mediumSize is enough for a medium with the smallest cache.
const mediumSize = 300 << 20

// mediumPartitions are the partitions of a medium.
var mediumPartitions = []string{"pando-bios", "pando-efi", "pando-k-a", "pando-k-b", cache.PartitionName}

// mediumServer makes media as a server does, with fake images. It refuses the group "nobody".
func mediumServer(t *testing.T) (c *api.Client, asked *int) {
	t.Helper()
	fill := func(n int) []byte { return bytes.Repeat([]byte{7}, n) }
	asked = new(int)
	socket := cmdenv.SocketPath(t.TempDir())
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		var req api.MediumCreate
		err := json.NewDecoder(r.Body).Decode(&req)
		if err != nil || req.Select == "@nobody" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).
				Encode(api.ErrorBody{Error: api.NewError(api.NotFound, `group "nobody": not found`, "")})
			return
		}
		writes, err := media.Medium(
			req.Size,
			media.Loader{BootCode: fill(media.Sector), Core: fill(100_000)},
			media.K{Kernel: fill(5000), Initramfs: fill(5000)},
		)
		if err != nil {
			t.Error(err)
		}
		_ = media.Send(w, writes)
	})}
	go func() { _ = s.Serve(l) }()
	c = api.OverSocket(socket)
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c, asked
}

// partitionsOf returns the names of the partitions on a disk or in its image.
func partitionsOf(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parts, err := cache.ReadPartitions(f, mediumSize, media.Sector)
	if err != nil {
		t.Errorf("partitions of %s: %v", path, err)
	}
	for _, p := range parts {
		names = append(names, p.Name)
	}
	return names
}

// mediumRefusal is a command line that `media create` refuses.
type mediumRefusal struct {
	name, output, erase string
	size                int64
	err, hint           string
	usage               bool
}

// try expects the refusal, and no request to the server before it.
func (x mediumRefusal) try(t *testing.T) {
	t.Helper()
	c, asked := mediumServer(t)
	env, out := testEnv()
	err := createMedium(
		env,
		t.Context(),
		c,
		"@lab",
		mediumFlags{output: x.output, erase: x.erase, size: output.NewSize(x.size)},
	)
	var usage *exitcode.UsageError
	if err == nil || !strings.Contains(err.Error(), x.err) || exitcode.HintOf(err) != x.hint ||
		errors.As(err, &usage) != x.usage {
		t.Errorf("%s: got %v, hint %q; want %q, hint %q", x.name, err, exitcode.HintOf(err), x.err, x.hint)
	}
	if *asked != 0 || out.Len() > 0 {
		t.Errorf("%s: the server was asked %d times, and it says %q", x.name, *asked, out)
	}
}

// A file is made, or replaced if it was named twice. After a refusal it is unchanged.
func TestMediumInAFile(t *testing.T) {
	dir := t.TempDir()
	old, made, missing := filepath.Join(
		dir,
		"old.img",
	), filepath.Join(
		dir,
		"new.img",
	), filepath.Join(
		dir,
		"none/new.img",
	)
	if err := os.WriteFile(old, []byte("photos"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []mediumRefusal{
		{name: "file that exists", output: old, err: old + " exists", hint: "to replace it: --erase " + old,
			usage: true},
		{name: "another file confirmed", output: old, erase: made, err: old + " exists", hint: "to replace it: " +
			"--erase " + old, usage: true},
		{name: "directory", output: dir, erase: dir, err: dir + " is neither a file nor a disk", usage: true},
		{name: "no disk", output: os.DevNull, erase: os.DevNull, err: os.DevNull + " is neither a file nor a " +
			"disk", usage: true},
		{name: "below a file", output: old + "/new.img", err: "not a directory"},
		{name: "no directory", output: missing, err: "no such file"},
	} {
		x.try(t)
	}
	c, _ := mediumServer(t)
	env, out := testEnv()
	if err := createMedium(env, t.Context(), c, "@nobody",
		mediumFlags{output: made, size: output.NewSize(mediumSize)}); !api.IsCode(
		err,
		api.NotFound,
	) {
		t.Errorf("the server refuses: %v", err)
	}
	if err := createMedium(env, t.Context(), c, "@nobody",
		mediumFlags{output: old, erase: old, size: output.NewSize(mediumSize)}); !api.IsCode(
		err,
		api.NotFound,
	) {
		t.Errorf("the server refuses what would replace a file: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("what was refused leaves %v, %v", left, err)
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "photos" {
		t.Errorf("the file that was there has %q, %v", b, err)
	}
	for _, f := range []mediumFlags{{output: made, size: output.NewSize(mediumSize)},
		{output: old, erase: old, size: output.NewSize(mediumSize + 1)}} {
		out.Reset()
		if err := createMedium(env, t.Context(), c, "@lab", f); err != nil ||
			!strings.HasPrefix(out.String(), f.output+" is a boot medium for @lab: ") {
			t.Errorf("%s: %v, and it says %q", f.output, err, out)
		}
		if info, err := os.Stat(f.output); err != nil {
			t.Error(err)
		} else if info.Size() != mediumSize {
			t.Errorf("%s has %d bytes", f.output, info.Size())
		}
		if got := partitionsOf(t, f.output); !slices.Equal(got, mediumPartitions) {
			t.Errorf("%s has the partitions %q", f.output, got)
		}
	}
}

// A whole disk is used if it was named twice and is not in use.
func TestMediumOnADisk(t *testing.T) {
	disk := photoDisk(t)
	part := disk + "p1"
	busy := mediumRefusal{
		output: disk,
		erase:  disk,
		err:    "resource busy",
		hint:   "is a partition of it mounted? see `lsblk " + disk + "`",
	}
	for _, x := range []mediumRefusal{
		{name: "not confirmed", output: disk, err: disk + " is a disk, and all",
			hint: "if that is meant: --erase " + disk, usage: true},
		{name: "another disk confirmed", output: disk, erase: part, err: disk + " is a disk, and " +
			"all", hint: "if that is meant: --erase " + disk, usage: true},
		{name: "with a size", output: disk, erase: disk, size: mediumSize, err: "leave --size out", usage: true},
	} {
		x.try(t)
	}
	at := t.TempDir()
	if err := unix.Mount(part, at, "ext4", unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("mount %s: %v", part, err)
	}
	busy.name = "a partition is mounted"
	busy.try(t)
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatalf("unmount %s: %v", part, err)
	}
	held, err := os.OpenFile(disk, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	busy.name = "another program has it for itself"
	busy.try(t)
	held.Close()

	c, _ := mediumServer(t)
	env, out := testEnv()
	f := mediumFlags{output: disk, erase: disk, size: output.NewSize(0)}
	if err := createMedium(env, t.Context(), c, "@nobody", f); !api.IsCode(err, api.NotFound) {
		t.Errorf("the server refuses: %v", err)
	}
	if got := partitionsOf(t, disk); !slices.Equal(got, []string{"photos"}) {
		t.Fatalf("after what was refused the disk has the partitions %q", got)
	}
	if err := createMedium(env, t.Context(), c, "@lab", f); err != nil ||
		!strings.HasPrefix(out.String(), disk+" is a boot medium for @lab: ") {
		t.Errorf("%v, and it says %q", err, out)
	}
	if got := partitionsOf(t, disk); !slices.Equal(got, mediumPartitions) {
		t.Errorf("the disk has the partitions %q", got)
	}
}

// photoDisk returns a loop device with a file system in a partition named photos.
func photoDisk(t *testing.T) (device string) {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = errors.Join(
		f.Truncate(mediumSize),
		cache.WritePartitions(
			f,
			mediumSize,
			media.Sector,
			[]cache.Partition{{Type: cache.TypeCache, Name: "photos", Start: 1 << 20, Size: 64 << 20}},
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--partscan", path).CombinedOutput()
	if err != nil {
		t.Skipf("this machine has no loop devices: %v: %s", err, out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	if out, err := exec.Command("partx", "--update", device).CombinedOutput(); err != nil {
		t.Logf("partx: %v: %s", err, out) // the kernel may know of the partition already
	}
	if out, err := exec.Command("mkfs.ext4", "-q", device+"p1").CombinedOutput(); err != nil {
		t.Skipf("no file system for the disk: %v: %s", err, out)
	}
	return device
}
