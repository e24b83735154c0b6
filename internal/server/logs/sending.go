package logs

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"pando/internal/fleet"
)

// The files on a node with which it sends its journal.
const (
	KeyFile       = "/etc/pando/journal.key"
	CertFile      = "/etc/pando/journal.crt"
	AuthorityFile = "/etc/pando/server.crt"
)

// Files returns the files with which a node sends its journal to the server at an address. The secret file is a key
// that is valid for one boot.
func (j *Journals) Files(boot fleet.BootID, at netip.Addr) (public, secret []fleet.File, err error) {
	if !j.Kept() || !at.IsValid() {
		return nil, nil, nil
	}
	u, err := j.keys.Upload(string(boot))
	if err != nil {
		return nil, nil, err
	}
	url := "https://" + net.JoinHostPort(at.String(), strconv.Itoa(int(j.controlPort()))) + NodePath
	public = append(
		unitFiles("pando-journal.timer", "sysinit.target", journalTimer),
		fleet.File{
			Path: "/etc/systemd/system/pando-journal.service",
			Mode: 0o644,
			Data: fmt.Appendf(nil, journalUnit, url),
		},
		fleet.File{
			Path: "/etc/systemd/system/pando-booted.service.d/pando-journal.conf",
			Mode: 0o644,
			Data: []byte(journalBooted),
		},
		fleet.File{
			Path: CertFile,
			Mode: 0o644,
			Data: u.Certificate,
		},
		fleet.File{Path: AuthorityFile, Mode: 0o644, Data: u.Authority},
	)
	return public, []fleet.File{{Path: KeyFile, Mode: 0o600, Data: u.Key}}, nil
}

// journalUnit runs systemd-journal-upload, separately from a unit of the image. Its state is in memory, because the
// next boot has its own journal; older boots are skipped. It stops after other services. An unreachable server is no
// failure: lines wait in the journal.
const journalUnit = `[Unit]
Description=Pando: the journal is sent to the server
DefaultDependencies=no
After=systemd-journald.service
Before=sysinit.target shutdown.target
Conflicts=shutdown.target
ConditionPathExists=/lib/systemd/systemd-journal-upload
ConditionPathExists=/etc/pando/journal.key
StartLimitIntervalSec=0

[Service]
DynamicUser=yes
SupplementaryGroups=systemd-journal
RuntimeDirectory=pando-journal
RuntimeDirectoryPreserve=yes
LoadCredential=key:/etc/pando/journal.key
ExecStart=/bin/sh -c '[ -e "$RUNTIME_DIRECTORY/state" ] || journalctl --quiet --boot=-1 --lines=1 --output=export --output-fields=_PID 2>/dev/null | sed -n "s/^__CURSOR=/LAST_CURSOR=/p" >"$RUNTIME_DIRECTORY/state"; exec /lib/systemd/systemd-journal-upload --url=%s --key="$CREDENTIALS_DIRECTORY/key" --cert=/etc/pando/journal.crt --trust=/etc/pando/server.crt --save-state="$RUNTIME_DIRECTORY/state"'
Restart=always
RestartSec=15
SuccessExitStatus=1
WatchdogSec=3min
LogLevelMax=notice
Nice=19
LockPersonality=yes
MemoryDenyWriteExecute=yes
PrivateDevices=yes
ProtectHome=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
SystemCallArchitectures=native
LimitNOFILE=524288
`

// journalBooted and journalTimer start journalUnit when the node has booted, or when its boot takes long. Started with
// the first services it would slow down each boot.
const (
	journalBooted = `[Service]
ExecStartPost=-/bin/systemctl start --no-block pando-journal.service
`
	journalTimer = `[Unit]
Description=Pando: the journal of a boot that takes long
DefaultDependencies=no
Before=shutdown.target
Conflicts=shutdown.target

[Timer]
OnActiveSec=20s
AccuracySec=1s
`
)
