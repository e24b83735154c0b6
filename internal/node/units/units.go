package units

import (
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// Files returns all files in /run for the image's programs. nicIndex is the interface index of the root's adapter. A
// boot that ends in emergency or rescue mode restarts after rebootAfter; 0 or less: never.
func Files(nicIndex int, rebootAfter time.Duration) []fleet.File {
	files := texts([][2]string{ // a table makes a smaller program than single calls
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

// texts returns files for a table of paths and contents.
func texts(table [][2]string) []fleet.File {
	var files []fleet.File
	for _, t := range table {
		files = append(files, rootdir.Text(t[0], t[1]))
	}
	return files
}

// The agent's unit waits for nothing of the image. It must run while a boot waits for node state or a disk, or is in
// emergency mode, because it reports that.
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

// bootedUnit is also ordered after graphical.target: the order has no effect if that is not started, and if it is
// started, it is the default target.
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

// A failed mount of the image leads to emergency mode, and an administrator may choose it.
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

// The timer does not run on a node that had booted or was told to start in such a mode, because somebody works there.
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

// An image has no host keys: the node's come as config files. If they do not, this unit makes one.
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

// The files below keep the image's network managers off the root's adapter, whose link, address and lease Pando
// maintains. udev finds the adapter by its index: udev may rename it, and a bridge or VLAN may have its MAC.

// NM_UNMANAGED is NetworkManager's own property, PANDO_NIC the one that networkd's file matches. UDISKS_IGNORE keeps
// desktops from showing the devices of root and state as disks that can be mounted.
const udevRule = `ACTION!="remove", SUBSYSTEM=="net", ATTR{ifindex}=="%d", ENV{NM_UNMANAGED}="1", ENV{PANDO_NIC}="1"
SUBSYSTEM=="block", KERNEL=="nbd*", ENV{UDISKS_IGNORE}="1"
`

const networkdFile = `[Match]
Property=PANDO_NIC=1

[Link]
Unmanaged=yes
RequiredForOnline=no
`

// Before Linux 6.2 an adapter that is up cannot be renamed. udev of Debian 12 tries it and then waits for ever:
// ifup@NAME.service times out after 90 s, and networkd ignores the property above. So udev only adds alternative
// names.
const keepNameFile = `[Match]
Property=PANDO_NIC=1
KernelVersion=<6.2

[Link]
AlternativeNamesPolicy=database onboard slot path
`

// networkd and ifupdown wait for a link that they manage. Most nodes have none, and the network was up before the
// root.
const waitOnlineDropIn = `[Service]
ExecStart=
ExecStart=/run/pando/pando-init version
`

// networkManagerFile keeps NetworkManager from writing resolv.conf, which is a config file of the node.
const networkManagerFile = `[main]
dns=none
rc-manager=unmanaged
`

// ifupdown has no mark for adapters of others. It gets the adapter's current name to skip it in ifup -a and ifdown
// -a. Without that ifdown -a would take the root's network away at shutdown.
const networkingDropIn = `[Service]
EnvironmentFile=-/run/pando/ifupdown.env
ExecStartPre=/run/pando/pando-init ifupdown-env
`

const ifupDropIn = `[Service]
ExecCondition=/run/pando/pando-init own-nic %I
`
