package units

import (
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// Files is all that is put into /run for the programs of the image. The image itself stays as it is. rebootAfter is
// when a boot that ended in emergency or rescue mode begins anew; below zero: never.
func Files(nicIndex int, rebootAfter time.Duration) []fleet.File {
	files := texts([][2]string{ // a table, and not one call each, which is as much program as text
		{"/run/udev/rules.d/10-pando.rules", fmt.Sprintf(udevRule, nicIndex)},
		{"/run/systemd/network/00-pando.network", networkdFile},
		{"/run/systemd/network/00-pando.link", keepNameFile},
		{"/run/NetworkManager/conf.d/00-pando.conf", networkManagerFile},
		{unitDir + "systemd-networkd-wait-online.service.d/pando.conf", waitOnlineDropIn},
		{unitDir + "ifupdown-wait-online.service.d/pando.conf", waitOnlineDropIn},
		{unitDir + "networking.service.d/pando.conf", networkingDropIn},
		{unitDir + "ifup@.service.d/pando.conf", ifupDropIn},
		{unitDir + "pando-agent.service", agentUnit},
		{unitDir + "pando-booted.service", bootedUnit},
		{unitDir + "pando-emergency.service", emergencyUnit},
		{unitDir + "pando-ssh-key.service", sshKeyUnit},
		{unitDir + "ssh.service.d/pando.conf", sshDropIn},
		{unitDir + "sshd.service.d/pando.conf", sshDropIn},
	})
	if rebootAfter > 0 {
		files = append(files, rootdir.Text(unitDir+"pando-emergency.timer",
			fmt.Sprintf(emergencyTimer, int(rebootAfter.Seconds()))))
	}
	for _, wanted := range [][2]string{
		{"multi-user", "agent"}, {"multi-user", "booted"}, {"emergency", "emergency"}, {"rescue", "emergency"},
	} {
		unit := "pando-" + wanted[1] + ".service"
		files = append(files, rootdir.Link(unitDir+wanted[0]+".target.wants/"+unit, "../"+unit))
	}
	return files
}

const unitDir = "/run/systemd/system/"

// texts makes files of paths and what is in them.
func texts(table [][2]string) []fleet.File {
	var files []fleet.File
	for _, t := range table {
		files = append(files, rootdir.Text(t[0], t[1]))
	}
	return files
}

// It waits for nothing of the image: where a boot waits for node state or a disk, or ends in emergency mode, it has
// most to tell.
const agentUnit = `[Unit]
Description=Pando agent
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
StartLimitIntervalSec=0

[Service]
ExecStart=@/run/pando/pando-init pando-agent
Restart=always
RestartSec=2
OOMScoreAdjust=-900
KillMode=mixed
TimeoutStopSec=15
`

// After graphical.target too: an order against a unit that is not started means nothing, and where it is
// started it is the default target.
const bootedUnit = `[Unit]
Description=Pando: the default target is reached
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
Requires=multi-user.target
After=multi-user.target graphical.target

[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=pando-booted
RuntimeDirectoryPreserve=yes
ExecStart=/run/pando/pando-init mark booted
`

// A mount of the image that fails leads here, and so may an administrator.
const emergencyUnit = `[Unit]
Description=Pando: emergency or rescue mode
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
Wants=pando-agent.service pando-emergency.timer

[Service]
Type=oneshot
ExecStart=/run/pando/pando-init mark emergency
`

// Not for a node that was up, nor for one that was told to start in such a mode: somebody works there.
const emergencyTimer = `[Unit]
Description=Pando: restart out of emergency mode
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
ConditionPathExists=!/run/pando-booted
ConditionKernelCommandLine=!systemd.unit=emergency.target
ConditionKernelCommandLine=!systemd.unit=rescue.target
ConditionKernelCommandLine=!emergency
ConditionKernelCommandLine=!rescue
ConditionKernelCommandLine=!single

[Timer]
OnActiveSec=%d
Unit=reboot.target
`

// An image holds no host keys, and the node's own come as config files. Where they do not, one is made.
const sshKeyUnit = `[Unit]
Description=Pando: make a host key for ssh
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
After=local-fs.target
ConditionPathExistsGlob=!/etc/ssh/ssh_host_*_key

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
`

const sshDropIn = `[Unit]
Wants=pando-ssh-key.service
After=pando-ssh-key.service
`

// What follows keeps the image's network managers off the adapter that the root hangs on; its link, address
// and lease are kept by Pando. A udev rule finds the adapter by its index, because udev renames it and other
// links (a bridge, a VLAN) may have its MAC.

// NM_UNMANAGED is NetworkManager's own property for this; PANDO_NIC is what networkd's file matches. Without
// UDISKS_IGNORE a desktop shows the devices of root and state as disks that can be mounted.
const udevRule = `ACTION!="remove", SUBSYSTEM=="net", ATTR{ifindex}=="%d", ENV{NM_UNMANAGED}="1", ENV{PANDO_NIC}="1"
SUBSYSTEM=="block", KERNEL=="nbd*", ENV{UDISKS_IGNORE}="1"
`

const networkdFile = `[Match]
Property=PANDO_NIC=1

[Link]
Unmanaged=yes
RequiredForOnline=no
`

// Before Linux 6.2 an adapter that is up cannot get another name. udev of Debian 12 tries all the same and then
// takes the renaming to be under way for ever: systemd has no device of either name, ifup@NAME.service waits 90
// seconds for it, and networkd never looks at the mark above. The other names stay as alternative ones.
const keepNameFile = `[Match]
Property=PANDO_NIC=1
KernelVersion=<6.2

[Link]
AlternativeNamesPolicy=database onboard slot path
`

// networkd and ifupdown wait for at least one link of theirs; on most nodes there is none, and the network has
// been there since before the root was.
const waitOnlineDropIn = `[Service]
ExecStart=
ExecStart=/run/pando/pando-init version
`

// NetworkManager leaves resolv.conf alone: it is a config file of the node.
const networkManagerFile = `[main]
dns=none
rc-manager=unmanaged
`

// ifupdown knows no mark for "not yours": it is told the name that the adapter has by now, to leave it out of
// both ifup -a and ifdown -a. The latter would otherwise take the root away at shutdown.
const networkingDropIn = `[Service]
EnvironmentFile=-/run/pando/ifupdown.env
ExecStartPre=/run/pando/pando-init ifupdown-env
`

const ifupDropIn = `[Service]
ExecCondition=/run/pando/pando-init own-nic %I
`
