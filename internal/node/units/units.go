package units

import (
	"fmt"

	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// Files is all that is put into /run for the programs of the image. The image itself stays as it is.
func Files(nicIndex int) []fleet.File {
	return append(unitFiles(), networkFiles(nicIndex)...)
}

// unitFiles are the units: the agent, the mark at the default target, and ssh's keys.
func unitFiles() []fleet.File {
	const units = "/run/systemd/system/"
	return []fleet.File{
		rootdir.Text(units+"pando-agent.service", agentUnit),
		rootdir.Link(units+"multi-user.target.wants/pando-agent.service", "../pando-agent.service"),
		rootdir.Text(units+"pando-booted.service", bootedUnit),
		rootdir.Link(units+"multi-user.target.wants/pando-booted.service", "../pando-booted.service"),
		rootdir.Text(units+"pando-ssh-key.service", sshKeyUnit),
		rootdir.Text(units+"ssh.service.d/pando.conf", sshDropIn),
		rootdir.Text(units+"sshd.service.d/pando.conf", sshDropIn),
	}
}

const agentUnit = `[Unit]
Description=Pando agent
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
After=multi-user.target graphical.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/run/pando/pando-init mark booted
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

// networkFiles keep the image's network managers off the adapter that the root hangs on; its link, address
// and lease are kept by Pando. A udev rule finds the adapter by its index, because udev renames it and other
// links (a bridge, a VLAN) may have its MAC.
func networkFiles(nicIndex int) []fleet.File {
	const systemd = "/run/systemd/"
	rule := fmt.Sprintf(udevRule, nicIndex)
	return []fleet.File{
		rootdir.Text("/run/udev/rules.d/10-pando.rules", rule),
		rootdir.Text(systemd+"network/00-pando.network", networkdFile),
		rootdir.Text(systemd+"network/00-pando.link", keepNameFile),
		rootdir.Text(systemd+"system/systemd-networkd-wait-online.service.d/pando.conf", waitOnlineDropIn),
		rootdir.Text(systemd+"system/ifupdown-wait-online.service.d/pando.conf", waitOnlineDropIn),
		rootdir.Text("/run/NetworkManager/conf.d/00-pando.conf", networkManagerFile),
		rootdir.Text(systemd+"system/networking.service.d/pando.conf", networkingDropIn),
		rootdir.Text(systemd+"system/ifup@.service.d/pando.conf", ifupDropIn),
	}
}

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
