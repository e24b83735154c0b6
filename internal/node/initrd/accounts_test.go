package initrd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/rootdir"
)

func TestLockRoot(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"root:$y$j9T$abc:19000:0:99999:7:::\nbin:*:1:0:99999:7:::\n",
			"root:*:19000:0:99999:7:::\nbin:*:1:0:99999:7:::\n"},
		{"root::19000:0:99999:7:::\n", "root:*:19000:0:99999:7:::\n"},
		{"root:!:1::::::", "root:*:1::::::"},
		{"root:*:1::::::\n", "root:*:1::::::\n"},
		{"rooty:x:1\n# root:x:1\n", "rooty:x:1\n# root:x:1\n"},
		{"root", "root"},
		{"", ""},
	} {
		if got := lockRoot(c.in); got != c.want {
			t.Errorf("lockRoot(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestMaskFstab(t *testing.T) {
	in := "# /etc/fstab\nUUID=1 / ext4 errors=remount-ro 0 1\n\n/dev/sda1 /boot/efi vfat umask=0077 0 1\n" +
		"UUID=3 /bootcamp ext4 defaults 0 2\n#UUID=2 / x\ntmpfs /tmp tmpfs defaults\n\tLABEL=r\t/\text4"
	want := "# /etc/fstab\n" + rootNote + "UUID=1 / ext4 errors=remount-ro 0 1\n\n" + rootNote +
		"/dev/sda1 /boot/efi vfat umask=0077 0 1\n" + diskNote + "UUID=3 /bootcamp ext4 defaults 0 2\n#UUID=2 / x\n" +
		"tmpfs /tmp tmpfs defaults\n" + rootNote + "\tLABEL=r\t/\text4"
	if got, _ := maskFstab(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, _ := maskFstab(want); again != want {
		t.Errorf("masking again changes it:\n%s", again)
	}
}

func TestMaskFstabDisks(t *testing.T) {
	for _, line := range []string{"/swapfile none swap sw 0 0", "/dev/vda5 none swap sw", "UUID=5 none swap sw 0 0",
		"UUID=1 /home ext4 defaults 0 2", "LABEL=scratch\t/scratch\txfs", "PARTUUID=7 /srv auto", "PARTLABEL=x /x ext4",
		"/dev/disk/by-id/x /data ext4 defaults,nofail", "/dev/mapper/vg-home /home ext4",
		"host0 /mnt 9p trans=virtio,version=9p2000.L 0 0", "share /mnt virtiofs defaults", "docs /mnt vboxsf defaults",
		".host:/ /mnt/hgfs fuse.vmhgfs-fuse allow_other", "vmhgfs-fuse /mnt/hgfs fuse allow_other", ".host:/ /h vmhgfs",
		"tank/home /home zfs defaults 0 0", "ubi0:home /home ubifs", "/dev/sda:/dev/sdb /pool bcachefs defaults 0 0"} {
		if got, _ := maskFstab(line + "\n"); got != diskNote+line+"\n" {
			t.Errorf("%q is left as %q", line, got)
		}
	}
	for _, line := range []string{"tmpfs /tmp tmpfs size=1g", "/dev/shm /run/x tmpfs", "proc /proc proc",
		"nas:/home /home nfs defaults,_netdev 0 0", "//nas/x /mnt cifs credentials=/etc/c",
		"10.0.0.1 /mnt 9p trans=tcp,port=564", "sshfs#u@nas:/x /x fuse defaults",
		"/srv/disk* /pool fuse.mergerfs defaults",
		"/srv/a /home/a none bind",
		"/dev/shm /srv/shm none rw,bind", "UUID=9 /iscsi ext4 _netdev", "/dev/sr0 /media/cdrom0 udf,iso9660 " +
			"user,noauto 0 0",
		"# UUID=1 /home ext4", "overlay /x overlay lowerdir=/a,upperdir=/b,workdir=/c", "word"} {
		if got, _ := maskFstab(line); got != line {
			t.Errorf("%q became %q", line, got)
		}
	}
}

// systemd must not wait for encrypted disks that the node does not have. Lines for network devices and noauto lines
// stay.
func TestMaskCrypttab(t *testing.T) {
	for _, line := range []string{"home UUID=1 none luks", "swap\t/dev/sda2 /dev/urandom swap,nofail",
		"data PARTUUID=7 /etc/key", "vg-x LABEL=x"} {
		if got := maskCrypttab("# c\n" + line + "\n"); got != "# c\n"+diskNote+line+"\n" {
			t.Errorf("%q is left as %q", line, got)
		} else if maskCrypttab(got) != got {
			t.Errorf("masking again changes %q", got)
		}
	}
	for _, line := range []string{"x UUID=1 none luks,noauto", "y /dev/sdb none _netdev", "z /srv/z.img none", "# a b",
		"word", ""} {
		if got := maskCrypttab(line); got != line {
			t.Errorf("%q became %q", line, got)
		}
	}
}

// File systems on a masked disk are masked too, wherever their line is.
func TestMaskFstabBelowDisks(t *testing.T) {
	in := []string{
		"/data/home /home none bind 0 0",
		"UUID=1 /data ext4 defaults 0 2",
		"/home/lab /srv/lab none rbind",
		"/data/a:/data/b /pool fuse.mergerfs defaults",
		"overlay /x overlay lowerdir=/usr/share,upperdir=/data/up,workdir=/data/work",
		"/database /y none bind",
		"tmpfs /data/tmp tmpfs",
		"UUID=2 / ext4",
		"/srv/z /z none bind",
		"/mnt/disk* /globbed fuse.mergerfs defaults",
		"/mnt/*/films=RO:/srv/films /films fuse.unionfs defaults",
		"LABEL=d1 /mnt/disk1 xfs",
		"/mnt/x* /others fuse.mergerfs defaults",
	}
	masked := []string{diskNote, diskNote, diskNote, diskNote, diskNote, "", "", rootNote, "", diskNote, diskNote,
		diskNote, ""}
	text, _ := maskFstab(strings.Join(in, "\n"))
	for i, line := range strings.Split(text, "\n") {
		if line != masked[i]+in[i] {
			t.Errorf("%q became %q", in[i], line)
		}
	}
}

// TestMaskDiskUnits: mount and swap units of the image for local disks are kept from running, as lines of fstab are.
func TestMaskDiskUnits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/systemd/system/srv-data.mount": "[Unit]\n# What=nas:/x\n[Mount]\nWhat=/dev/disk/by-uuid/1\n" +
			"Where=/srv/data\nType=ext4\n[Install]\nWantedBy=multi-user.target\n",
		"etc/systemd/system/home.mount":        "[Mount]\nWhat = UUID=2\nWhere=/home\n",
		"etc/systemd/system/pool.mount":        "[Mount]\nWhat=/srv/data/pool\nWhere=/pool\nType=none\nOptions=bind\n",
		"etc/systemd/system/nas.mount":         "[Mount]\nWhat=nas:/x\nWhere=/nas\nType=nfs\n",
		"usr/lib/systemd/system/iscsi.mount":   "[Mount]\nWhat=LABEL=x\nWhere=/iscsi\nOptions=ro,_netdev\n",
		"usr/lib/systemd/system/tmp.mount":     "[Mount]\nWhat=tmpfs\nWhere=/tmp\nType=tmpfs\nOptions=mode=1777\n",
		"usr/lib/systemd/system/nas.mount":     "[Mount]\nWhat=/dev/sda1\nWhere=/nas\n",
		"usr/lib/systemd/system/swapfile.swap": "[Swap]\nWhat=/swapfile\n",
		"usr/lib/systemd/system/x.service":     "[Service]\nExecStart=/bin/true\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := rootdir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	units := diskUnits(root)
	text, local := maskFstab("/pool/x /y none bind\n", units...)
	if text != diskNote+"/pool/x /y none bind\n" {
		t.Errorf("a line of fstab below a unit: %q", text)
	}
	var got []string
	for _, f := range maskUnits(units, local) {
		got = append(got, f.Path+f.Target)
	}
	want := []string{"/run/systemd/system/home.mount.d/90-pando.conf", "/run/systemd/system/pool.mount.d/90-pando.conf",
		"/run/systemd/system/srv-data.mount.d/90-pando.conf", "/etc/systemd/system/swapfile.swap/dev/null"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
