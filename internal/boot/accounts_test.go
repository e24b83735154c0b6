package boot

import "testing"

func TestLockRoot(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"root:$y$j9T$abc:19000:0:99999:7:::\nbin:*:1:0:99999:7:::\n", "root:*:19000:0:99999:7:::\nbin:*:1:0:99999:7:::\n"},
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

func TestMaskRoot(t *testing.T) {
	in := "# /etc/fstab\nUUID=1 / ext4 errors=remount-ro 0 1\n\n/dev/sda1 /boot/efi vfat umask=0077 0 1\n" +
		"UUID=3 /bootcamp ext4 defaults 0 2\n#UUID=2 / x\ntmpfs /tmp tmpfs defaults\n\tLABEL=r\t/\text4"
	want := "# /etc/fstab\n" + fstabNote + "UUID=1 / ext4 errors=remount-ro 0 1\n\n" + fstabNote +
		"/dev/sda1 /boot/efi vfat umask=0077 0 1\nUUID=3 /bootcamp ext4 defaults 0 2\n#UUID=2 / x\n" +
		"tmpfs /tmp tmpfs defaults\n" + fstabNote + "\tLABEL=r\t/\text4"
	if got := maskRoot(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again := maskRoot(want); again != want {
		t.Errorf("masking again changes it:\n%s", again)
	}
}
