package rivals

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/bench"
)

// rivalInit is /init of the rivals' initramfs. It does only what is necessary, so that it is as fast as possible.
//
//go:embed init.sh
var rivalInit string

// rivalModules are the modules that rivals need; modules that the kernel has built in are left out. NFS needs many, so
// only its own machines load them.
var (
	rivalModules = []string{"virtio_pci", "virtio_net", "virtio_blk", "nbd", "squashfs", "erofs", "overlay"}
	nfsModules   = []string{"nfsv4", "loop"}
)

// rivalBoot returns the image's own kernel and an initramfs with this machine's busybox and nbd-client.
func rivalBoot(ctx context.Context, m *bench.Image) (kernel, initrd string, err error) {
	base := filepath.Join(m.Scratch, strings.TrimPrefix(string(m.Version), "sha256:"))
	recipe := sha256.Sum256(
		[]byte(rivalInit + rivalScript + strings.Join(slices.Concat(rivalModules, nfsModules), " ")),
	)
	kernel, initrd = base+".vmlinuz", fmt.Sprintf("%s.%x.initrd", base, recipe[:4])
	err = bench.Once(kernel, func(tmp string) error {
		b, err := m.Store.Get(ctx, m.Manifest.Kernel.Object)
		if err != nil {
			return err
		}
		return os.WriteFile(tmp, b, 0o644)
	})
	if err != nil {
		return "", "", err
	}
	raw, err := m.RawFile(ctx)
	if err != nil {
		return "", "", err
	}
	return kernel, initrd, bench.Once(initrd, func(tmp string) error {
		dir := tmp + ".d"
		defer os.RemoveAll(dir)
		return errors.Join(
			rivalModulesTo(ctx, raw, filepath.Join(dir, "modules"), rivalModules),
			rivalModulesTo(ctx, raw, filepath.Join(dir, "nfs"), nfsModules),
			rivalPrograms(ctx, dir),
			packRival(ctx, dir, tmp),
		)
	})
}

// rivalModulesTo copies modules out of the image, unpacked. Their file names begin with numbers in load order.
func rivalModulesTo(ctx context.Context, raw, dir string, modules []string) error {
	tree := raw + ".mount"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(tree, 0o755)); err != nil {
		return err
	}
	defer os.Remove(tree)
	const script = `set -eu
		raw=$1 out=$2 tree=$3; shift 3
		mount -t erofs -o loop,ro "$raw" "$tree"; trap 'umount "$tree"' EXIT
		for d in "$tree"/usr/lib/modules/*/; do kernel=$(basename "$d"); done
		n=100
		for m in "$@"; do modprobe -d "$tree/usr" -S "$kernel" --show-depends "$m"; done | sed -n 's/^insmod //p' | awk '!seen[$1]++ {print $1}' |
		while read -r f; do n=$((n + 1)); case $f in *.xz) xz -dc "$f" >"$out/$n.ko" ;; *) cp "$f" "$out/$n.ko" ;; esac; done`
	return bench.Run(ctx, "sh", append([]string{"-c", script, "sh", raw, dir, tree}, modules...)...)
}

// rivalPrograms copies busybox, and nbd-client with its libraries, and makes an SSH host key. The image has no key, and
// sshd would fail and be restarted again and again.
func rivalPrograms(ctx context.Context, dir string) error {
	nbd, err := exec.LookPath("nbd-client")
	if err != nil {
		return fmt.Errorf("%w (scripts/install-packages rivals)", err)
	}
	if err := bench.Run(ctx, "sh", "-c", rivalScript, "sh", dir, nbd); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "init"), []byte(rivalInit), 0o755)
}

const rivalScript = `set -eu; cd "$1"; mkdir -p bin sbin dev proc sys run low up new export
		ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key
		cp /bin/busybox bin/; cp "$2" sbin/nbd-client; mknod dev/console c 5 1
		ldd "$2" | grep -o '/[^ ]*' | while read -r lib; do mkdir -p ".$(dirname "$lib")"; cp -L "$lib" ".$lib"; done`

func packRival(ctx context.Context, dir, out string) error {
	return bench.Run(
		ctx,
		"sh",
		"-c",
		`cd "$1" && find . | cpio --quiet -o -H newc | zstd -q -19 -o "$2"`,
		"sh",
		dir,
		out,
	)
}
