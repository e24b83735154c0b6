package source

import (
	"fmt"
	"strings"
)

// omission is a kind of files that a copy of a machine leaves out. Patterns are rsync's: a leading slash is the root
// of the tree, and a pattern that ends in /* keeps the directory itself.
type omission struct {
	what     string
	patterns []string
}

// omissions lists the files of a machine that must not be in an image, which every node boots and everybody on the
// network can read. The report has the same order.
func omissions() []omission {
	return []omission{
		{
			"what the kernel and a running system have",
			[]string{
				"/proc/*",
				"/sys/*",
				"/dev/*",
				"/run/*",
				"/var/run/*",
				"/tmp/*",
				"/var/tmp/*",
				"/mnt/*",
				"/media/*",
				"/lost+found",
				"/swapfile",
				"/swap.img",
				"/swap/*",
			},
		},
		{
			"identities of the machine",
			[]string{
				"/etc/machine-id",
				"/var/lib/dbus/machine-id",
				"/etc/hostname",
				"/etc/ssh/ssh_host_*",
				"/var/lib/systemd/random-seed",
				"/var/lib/systemd/credential.secret",
				"/etc/iscsi/initiatorname.iscsi",
				"/etc/nvme/hostid",
				"/etc/nvme/hostnqn",
				"/var/lib/tailscale/*",
				"/etc/udev/rules.d/70-persistent-net.rules",
				"/var/lib/cloud/*",
			},
		},
		{
			"secrets",
			[]string{
				"/etc/krb5.keytab",
				"/var/lib/sss/db/*",
				"/var/lib/sss/secrets/*",
				"/var/lib/samba/private/*",
				"/etc/NetworkManager/system-connections/*",
				"/var/lib/NetworkManager/*",
				"/etc/wireguard/*",
				"/etc/openvpn/*",
				"/etc/ipsec.secrets",
				"/etc/ssl/private/*",
				"/etc/pki/tls/private/*",
				"/etc/letsencrypt/*",
				"/var/lib/bluetooth/*",
				"/var/lib/iwd/*",
				"/etc/wpa_supplicant/*.conf",
				"/etc/crypttab",
				"/etc/cups/ssl/*",
				"/etc/rndc.key",
				"/etc/bind/rndc.key",
				"/root/.ssh/id_*",
				"/root/.gnupg",
				"/root/.aws",
				"/root/.kube",
				"/root/.docker",
				"/root/.*_history",
				"/var/lib/pando",
			},
		},
		{"people's files", []string{"/home/*"}},
		{
			"containers and virtual machines",
			[]string{
				"/var/lib/docker/*",
				"/var/lib/containers/*",
				"/var/lib/containerd/*",
				"/var/lib/lxc/*",
				"/var/lib/lxd/*",
				"/var/lib/libvirt/images/*",
				"/var/lib/machines/*",
			},
		},
		{
			"logs, caches and spools",
			[]string{
				"/var/log/**",
				"/var/cache/apt/*.bin",
				"/var/cache/apt/archives/*.deb",
				"/var/cache/apt/archives/partial/*",
				"/var/lib/apt/lists/*",
				"/var/cache/dnf/*",
				"/var/cache/yum/*",
				"/var/cache/zypp/*",
				"/var/cache/pacman/pkg/*",
				"/var/cache/PackageKit/*",
				"/var/cache/ldconfig/aux-cache",
				"/var/crash/*",
				"/var/lib/systemd/coredump/*",
				"/var/spool/mail/*",
				"/var/mail/*",
				"/var/spool/cups/*",
				"/var/backups/*",
				"/root/.cache",
				"/boot/initrd*",
				"/boot/initramfs-*",
				"/boot/efi/*",
				"/boot/loader/*",
				"/etc/*-",
			},
		},
	}
}

// Choice changes which files a copy leaves out.
type Choice struct {
	Exclude []string // leave out these, too
	With    []string // copy these with everything below them, although they would be left out
}

// rules returns rsync's filter rules; the first match decides. Log directories are kept, because programs write into
// them.
func (c Choice) rules() []string {
	var out []string
	for _, p := range c.With {
		p = strings.TrimRight(p, "/*")
		for i := 1; i < len(p); i++ { // the directories above
			if p[i] == '/' {
				out = append(out, "+ "+p[:i]+"/")
			}
		}
		out = append(out, "+ "+p, "+ "+p+"/***")
	}
	for _, p := range c.Exclude {
		out = append(out, "- "+p)
	}
	out = append(out, "+ /var/log/**/")
	for _, o := range omissions() {
		for _, p := range o.patterns {
			out = append(out, "- "+p)
		}
	}
	return out
}

// check returns an error for patterns that do not begin at the root, or that are not safe in a rule.
func (c Choice) check() error {
	for _, p := range append(append([]string{}, c.Exclude...), c.With...) {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\n\x00") || p == "/" {
			return fmt.Errorf("%q: want a path from the root of the machine on, such as /srv/data", p)
		}
	}
	return nil
}

// notes reports what was left out, by kind, from the number of matches of each pattern. The first kind is not
// reported.
func notes(hidden map[string]int) []string {
	var out []string
	for _, o := range omissions()[1:] {
		var found []string
		for _, p := range o.patterns {
			if hidden[p] > 0 {
				found = append(found, p)
			}
			delete(hidden, p)
		}
		if len(found) > 0 {
			out = append(out, "left out, "+o.what+": "+strings.Join(found, " "))
		}
	}
	return out
}
