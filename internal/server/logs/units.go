package logs

import (
	"fmt"
	"net/netip"

	"pando/internal/fleet"
)

// ConsoleFiles returns the units with which a node reports kernel messages: those in pstore, and by netconsole if the
// server at this address listens on a port.
func ConsoleFiles(at netip.Addr, port int) []fleet.File {
	out := unitFiles("pando-pstore.service", "sysinit.target", pstoreUnit)
	if port > 0 && at.Is4() {
		out = append(
			out,
			unitFiles("pando-netconsole.service", "sysinit.target", fmt.Sprintf(netconsoleUnit, at, port, at))...)
	}
	return out
}

// unitFiles returns the files of a systemd unit that a target wants.
func unitFiles(name, target, text string) []fleet.File {
	const dir = "/etc/systemd/system/"
	return []fleet.File{
		{Path: dir + name, Mode: 0o644, Data: []byte(text)},
		{Path: dir + target + ".wants/" + name, Target: dir + name},
	}
}

// pstoreUnit copies the end of what a dying kernel left in pstore, the oldest part first, to where the agent finds it.
// After that systemd's own unit moves it to /var/lib/systemd/pstore, which frees pstore.
const pstoreUnit = `[Unit]
Description=Pando: what the kernel of the last boot left
DefaultDependencies=no
Wants=modprobe@efi_pstore.service systemd-pstore.service
After=modprobe@efi_pstore.service
Before=systemd-pstore.service sysinit.target shutdown.target
Conflicts=shutdown.target
ConditionDirectoryNotEmpty=/sys/fs/pstore

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cat $$(ls -r /sys/fs/pstore/dmesg-*) | tail -c 32768 >/run/pando/pstore.new && mv /run/pando/pstore.new /run/pando/pstore'
`

// netconsoleUnit finds the current name of the adapter, which netconsole needs. It names no hardware address, so
// netconsole sends to the broadcast address of the segment.
const netconsoleUnit = `[Unit]
Description=Pando: the kernel tells the server what it says
DefaultDependencies=no
After=systemd-modules-load.service
ConditionPathExists=!/sys/module/netconsole

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'exec modprobe netconsole netconsole=@/$$(ip -o route get %[1]s | sed -n "s/.* dev \\([^ ]*\\).*/\\1/p"),%[2]d@%[3]s/'
`
