package nodestate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// Defaults of mounts over the network, beside what their lines say. An option of the line wins over the one of the
// same name here, and over its opposite.
//
// hard: while a server is away programs wait, instead of being told that a write failed that the kernel had taken
// already. timeo=100: ask again after 10 s, and not after 60, which is TCP's default and makes the end of an outage
// slow to notice. nosuid, nodev: whoever can write on the server is not root on every node for it.
var networkDefaults = map[string][]string{
	"nfs":  {"hard", "timeo=100", "nosuid", "nodev", "noatime"},
	"nfs4": {"hard", "timeo=100", "nosuid", "nodev", "noatime"},
	"cifs": {"hard", "nosuid", "nodev", "noatime"},
	"smb3": {"hard", "nosuid", "nodev", "noatime"},
	"ceph": {"nosuid", "nodev", "noatime"},
}

var otherNetwork = []string{"nosuid", "nodev"}

// opposites are pairs of options of which the last counts.
var opposites = map[string]string{"hard": "soft", "nosuid": "suid", "nodev": "dev", "noatime": "relatime"}

// kernelType is the type as mount(2) has it: the one called nfs is version 3 or needs mount.nfs to find out.
func kernelType(m fleet.Mount) string {
	if m.Type == "nfs" && !strings.Contains(m.Options, "vers=3") {
		return "nfs4"
	}
	return m.Type
}

// mountOptions completes the options of a mount.
func mountOptions(m fleet.Mount) string {
	own := map[string]bool{}
	var out []string
	for o := range strings.SplitSeq(m.Options, ",") {
		if o == "" || o == "nofail" || o == "_netdev" || o == "auto" || o == "noauto" ||
			strings.HasPrefix(o, "x-systemd.") {
			continue // they are fstab's; a unit has its own words for them
		}
		name, _, _ := strings.Cut(o, "=")
		own[name] = true
		out = append(out, o)
	}
	defaults := networkDefaults[m.Type]
	if defaults == nil && m.Network() {
		defaults = otherNetwork
	}
	for _, d := range defaults {
		name, _, _ := strings.Cut(d, "=")
		if !own[name] && !own[opposites[name]] {
			out = append(out, d)
		}
	}
	if kernelType(m) == "nfs4" {
		out = append(out, withoutHelper(m, own)...)
	}
	if len(out) == 0 {
		return "defaults"
	}
	return strings.Join(out, ",")
}

// withoutHelper are the options that mount.nfs finds out, for images without it. The version has to be there: mount
// of util-linux 2.39 and later tells the kernel one option at a time (fsconfig(2)), and it takes NFS for version 3
// until it is told otherwise, whatever the type is.
func withoutHelper(m fleet.Mount, own map[string]bool) (out []string) {
	if !own["vers"] && !own["nfsvers"] {
		out = append(out, "vers=4.1") // what servers have had for ten years; without mount.nfs nobody tries another
	}
	if a := serverAddress(m); a != "" && !own["addr"] {
		out = append(out, "addr="+a)
	}
	return out
}

// serverAddress is the server of "10.0.0.1:/dir", "" if that is a name.
func serverAddress(m fleet.Mount) string {
	host, _, _ := strings.Cut(m.What, ":/")
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return ""
	}
	return a.String()
}

// onDemand reports whether a file system is mounted when somebody looks at it: what comes over the network, unless
// the line has noauto's opposite. A server that is away then holds up who needs it, and not the boot.
func onDemand(m fleet.Mount) bool {
	return m.Network() && !hasOption(m, "auto") || hasOption(m, "x-systemd.automount")
}

func hasOption(m fleet.Mount, option string) bool {
	return slices.Contains(strings.Split(m.Options, ","), option)
}

// device is what a unit has for UUID=, LABEL= and the like: the link of udev, as systemd-fstab-generator has it.
func device(what string) string {
	tag, value, _ := strings.Cut(what, "=")
	dir := map[string]string{"UUID": "uuid", "LABEL": "label", "PARTUUID": "partuuid", "PARTLABEL": "partlabel",
		"ID": "id"}[tag]
	if dir == "" {
		return what
	}
	var b strings.Builder
	for _, c := range []byte(value) {
		if c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("#+-.:=@_", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return "/dev/disk/by-" + dir + "/" + b.String()
}

// inUnit is a text as a setting of a unit, where a % begins a specifier.
func inUnit(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// mountFiles are the units of a mount. Early is the one that state is kept on: it is there before local-fs.target.
//
// What comes over the network does not wait for network-online.target, as systemd would have it: a node has its
// network before its root, and systemd-tmpfiles, which that target waits for, looks into /home, where it would wait
// for the target.
func mountFiles(m fleet.Mount, early bool) []fleet.File {
	name, target, order := unitName(m.Where, ".mount"), "local-fs.target", ""
	if m.Network() {
		target, order = "remote-fs.target", "DefaultDependencies=no\nConflicts=umount.target\nBefore=umount.target\n"
	}
	if early {
		target, order = "local-fs.target", order+"Before=local-fs.target\n"
	}
	where := inUnit(m.Where)
	unit := `[Unit]
Description=Pando: ` + where + `
` + order + `
[Mount]
What=` + inUnit(device(m.What)) + `
Where=` + where + `
Type=` + kernelType(m) + `
Options=` + inUnit(mountOptions(m)) + `
TimeoutSec=90
`
	if !early && !onDemand(m) && hasOption(m, "noauto") {
		return []fleet.File{file(unitDir+name, unit)}
	}
	if early || !onDemand(m) {
		return wanted(name, target, unit)
	}
	return append([]fleet.File{file(unitDir+name, unit)}, wanted(unitName(m.Where, ".automount"), target, `[Unit]
Description=Pando: `+where+` when it is looked at

[Automount]
Where=`+where+`
`)...)
}
