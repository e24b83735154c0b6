package packs

import (
	"cmp"
	"regexp"
	"slices"

	"pando/internal/api"
)

// adviceShare is the least share of all that boots read for which advice is given.
const adviceShare = 0.02

// advices are kinds of files that boots often read although no user needs them.
var advices = []struct {
	path *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`^(usr/)?lib/udev/hwdb\.bin$|^etc/udev/hwdb\.bin$`),
		"udev's hardware database: remove hardware that you do not have from /usr/lib/udev/hwdb.d, then run " +
			"`systemd-hwdb update --usr` in the recipe"},
	{regexp.MustCompile(`^usr/lib/locale/locale-archive$`),
		"all locales in one file: generate only the one that is used, or use C.UTF-8, which needs none"},
	{regexp.MustCompile(`^usr/lib/python3|^usr/bin/python3`),
		"something runs Python while it boots: `pando boot show NODE` lists the slowest units; mask the unit or " +
			"replace it"},
	{regexp.MustCompile(`^usr/(share|lib/[^/]+)/perl|^usr/bin/perl$`),
		"something runs Perl while it boots: mask the unit or replace it"},
	{regexp.MustCompile(`^(usr/)?lib/modules/`),
		"kernel modules: blacklist those of unused hardware (sound, Bluetooth, graphics of servers) in the " +
			"image's /etc/modprobe.d, so that they are not read"},
	{regexp.MustCompile(`^(usr/)?lib/firmware/`),
		"firmware: blacklist the module of a device that is not used, so that its firmware is not read"},
	{regexp.MustCompile(`^var/(lib|cache)/(apt|dpkg|man)|^var/cache/debconf|^usr/bin/(apt|dpkg)|^usr/lib/apt/`),
		"jobs of the package manager, on a machine that keeps no updates: mask apt-daily.timer, " +
			"apt-daily-upgrade.timer, dpkg-db-backup.timer and man-db.timer"},
	{regexp.MustCompile(`^usr/share/icons/|^usr/share/pixmaps/`),
		"icons: install one theme, and run gtk-update-icon-cache in the recipe"},
	{regexp.MustCompile(`^usr/(share|local/share)/fonts/|^var/cache/fontconfig/`),
		"fonts: install fewer, and run `fc-cache -s` in the recipe so that no node reads all of them"},
	{regexp.MustCompile(`^(usr/lib|var/lib|usr/bin)/snapd?`),
		"snapd: it unpacks what it starts; install packages of the distribution"},
	{regexp.MustCompile(`^usr/(lib|share)/plymouth/|^usr/s?bin/plymouth`),
		"a boot splash: it costs more than it is worth on nodes that boot fast; remove plymouth"},
	{regexp.MustCompile(`^var/log/`),
		"logs of the machine that the tree came from: remove them from the tree"},
	{regexp.MustCompile(`^$`),
		"inodes and directories: each file of the tree adds to them; leave out documentation, locales and headers " +
			"(dpkg's path-exclude)"},
}

// adviceOn returns advice that would shrink a boot, the largest part first. files are what boots read; read is the sum
// in bytes.
func adviceOn(files []api.TraceFile, read int64) []api.TraceAdvice {
	out := []api.TraceAdvice{}
	for _, a := range advices {
		sum := int64(0)
		for _, f := range files {
			if a.path.MatchString(f.Path) {
				sum += f.Read
			}
		}
		if float64(sum) >= adviceShare*float64(read) && sum > 0 {
			out = append(out, api.TraceAdvice{Text: a.text, Read: sum})
		}
	}
	slices.SortStableFunc(out, func(a, b api.TraceAdvice) int { return cmp.Compare(b.Read, a.Read) })
	return out
}
