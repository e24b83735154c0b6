package initrd

import (
	"strings"
	"testing"
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
	if got := maskFstab(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again := maskFstab(want); again != want {
		t.Errorf("masking again changes it:\n%s", again)
	}
}

func TestMaskFstabDisks(t *testing.T) {
	for _, line := range []string{"/swapfile none swap sw 0 0", "/dev/vda5 none swap sw", "UUID=5 none swap sw 0 0",
		"UUID=1 /home ext4 defaults 0 2", "LABEL=scratch\t/scratch\txfs", "PARTUUID=7 /srv auto", "PARTLABEL=x /x ext4",
		"/dev/disk/by-id/x /data ext4 defaults,nofail", "/dev/mapper/vg-home /home ext4",
		"tank/home /home zfs defaults 0 0", "ubi0:home /home ubifs", "/dev/sda:/dev/sdb /pool bcachefs defaults 0 0"} {
		if got := maskFstab(line + "\n"); got != diskNote+line+"\n" {
			t.Errorf("%q is left as %q", line, got)
		}
	}
	for _, line := range []string{"tmpfs /tmp tmpfs size=1g", "/dev/shm /run/x tmpfs", "proc /proc proc",
		"nas:/home /home nfs defaults,_netdev 0 0", "//nas/x /mnt cifs credentials=/etc/c", "/srv/a /home/a none bind",
		"/dev/shm /srv/shm none rw,bind", "UUID=9 /iscsi ext4 _netdev", "/dev/sr0 /media/cdrom0 udf,iso9660 " +
			"user,noauto 0 0",
		"# UUID=1 /home ext4", "overlay /x overlay lowerdir=/a,upperdir=/b,workdir=/c", "word"} {
		if got := maskFstab(line); got != line {
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
	}
	masked := []string{diskNote, diskNote, diskNote, diskNote, diskNote, "", "", rootNote, ""}
	for i, line := range strings.Split(maskFstab(strings.Join(in, "\n")), "\n") {
		if line != masked[i]+in[i] {
			t.Errorf("%q became %q", in[i], line)
		}
	}
}
