package trace

import (
	"strings"
	"testing"
	"time"
)

// eventsOf returns the events of a short notation: "dhcp+" began, "dhcp-" ended, "dhcp! text" failed, "dhcp? text" is a
// fact; "@30s" advances the clock.
func eventsOf(t *testing.T, lines ...string) (events []Event, end time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	kinds := map[byte]Kind{'+': Begin, '-': End, '!': Fail, '?': Info}
	for _, l := range lines {
		if wait, ok := strings.CutPrefix(l, "@"); ok {
			d, err := time.ParseDuration(wait)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
			continue
		}
		head, text, _ := strings.Cut(l, " ")
		e := Event{Time: now, Stage: Stage(head[:len(head)-1]), Kind: kinds[head[len(head)-1]], Message: text}
		if strings.HasPrefix(text, "Kernel panic") {
			e.Attrs = map[string]string{AttrPanic: "true"}
		}
		if strings.HasPrefix(text, "nobody answers") {
			e.Attrs = map[string]string{AttrRootLost: "true"}
		}
		events, now = append(events, e), now.Add(time.Second)
	}
	return events, now
}

// Boots up to a stage.
var (
	toAddress  = []string{"dhcp+ pxe, bios", "dhcp-"}
	toLoader   = append(toAddress, "bootfile+", "bootfile-")
	toScript   = append(toLoader, "script+", "script- lab:latest 0123")
	toKernel   = append(toScript, "kernel+", "kernel-", "initramfs+", "initramfs-")
	toRegister = append(
		toKernel,
		"init-",
		"modules+",
		"modules-",
		"link+",
		"link-",
		"address+",
		"address-",
		"hello+",
		"hello-",
	)
	toRoot = append(
		toRegister,
		"manifest+",
		"manifest-",
		"device+",
		"device-",
		"root+",
		"root-",
		"config+",
		"config-",
	)
	toSystemd = append(toRoot, "switchroot+", "switchroot-")
	toUp      = append(toSystemd, "booted-")
)

func with(before []string, more ...string) []string {
	return append(before[:len(before):len(before)], more...)
}

// TestDiagnose: every fault is found from its events.
func TestDiagnose(t *testing.T) {
	usual := map[Stage]time.Duration{
		BootFile:   4 * time.Second,
		Script:     6 * time.Second,
		Kernel:     2 * time.Second,
		Initramfs:  2 * time.Second,
		Init:       5 * time.Second,
		Register:   5 * time.Second,
		Root:       2 * time.Second,
		SwitchRoot: time.Second,
		Booted:     30 * time.Second,
	}
	seen := map[Fault]bool{}
	for _, tt := range []struct {
		name   string
		boot   []string
		units  []string
		usual  map[Stage]time.Duration
		fault  Fault // "": none
		says   string
		advice string
	}{
		{"no lease from us", with(nil, "dhcp+ pxe", "dhcp! no address for this machine: the range is given "+
			"out"), nil, nil, NoLease, "the range is given out", "pando doctor"},
		{"no lease from the site", with(nil, "dhcp+ pxe", "@90s"), nil, nil, NoLease, "was seen to get " +
			"none", "site's DHCP server"},
		{"asks for its address just now", with(nil, "dhcp+ pxe", "@20s"), nil, nil, "", "", ""},
		{"no boot file for its firmware", with(nil, "dhcp+ pxe", "bootfile! no boot file for architecture 12: it "+
			"is neither BIOS nor UEFI on x86 or ARM64"), nil, nil, NoBootFile, "architecture 12", "ipxe"},
		{"boot file lost", with(toAddress, "bootfile+", "bootfile! boot file undionly.kpxe did not arrive: "+
			"time-out"), nil, nil, BootFileLost, "undionly.kpxe", "UDP"},
		{"no image", with(toLoader, "script! group lab has no image"), nil, nil, NothingToBoot, "has no image",
			"pando image list"},
		{"wrong architecture", with(toLoader, "script! lab 0123 is for arm64, and this machine is "+
			"amd64"), nil, nil, WrongArchitecture, "arm64", "group"},
		{"wrong architecture, seen by the node", with(toRegister, "manifest+", "manifest! the version is for arm64, "+
			"this machine is amd64"), nil, nil, WrongArchitecture, "arm64", "architecture"},
		{"kernel broken off", with(toScript, "kernel+", "kernel! kernel was broken off after 1.0 MB of 8.2 "+
			"MB"), nil, nil, TransferBroken, "1.0 MB", "cable"},
		{"initramfs broken off", with(toScript, "kernel+", "kernel-", "initramfs+", "initramfs! initramfs was "+
			"broken off"), nil, nil, TransferBroken, "initramfs", "cable"},
		{"initramfs asked for by another", with(toScript, "kernel+", "kernel-", "initramfs! initramfs refused to "+
			"10.0.0.9: the script went to 10.0.0.8"), nil, nil, Refused, "10.0.0.9", "address"},
		{"no driver", with(toKernel, "init-", "modules+", "modules-", "link+", "link! no wired network adapter "+
			"appeared (tried: none)"), nil, nil, NoDriver, "no wired network adapter", "firmware-"},
		{"no drivers at all", with(toKernel, "init-", "modules+", "modules! read /lib/modules: no such "+
			"file"), nil, nil, NoDriver, "no such file", "build it again"},
		{"no link", with(toKernel, "init-", "link+", "link! no network link (tried: eth0, 15 s "+
			"each)"), nil, nil, NoLink, "eth0", "switch port"},
		{"no lease in the initramfs", with(toKernel, "init-", "link-", "address+", "address! no DHCP "+
			"answer"), nil, nil, NoLease, "after its kernel had started", "VLAN"},
		{"registration refused", with(toKernel, "init-", "address-", "hello+", "hello! register with the server: "+
			"registration refused: token already used"), nil, nil, Refused, "token already used", "reboot"},
		{"another server's word", with(toKernel, "init-", "address-", "hello+", "hello! check assignment: wrong "+
			"signature"), nil, nil, SignatureRefused, "wrong signature", "another Pando"},
		{"control port closed", with(toKernel, "init-", "address-", "hello+", "hello! register with the server: "+
			"dial tcp 10.0.0.1:8443: i/o timeout"), nil, nil, Unreachable, "8443", "firewall"},
		{"signature refused", with(toRegister, "manifest+", "manifest! http://10.0.0.1:8480: signature: no trusted "+
			"key made it"), nil, nil, SignatureRefused, "no trusted key", "pando key"},
		{"another manifest", with(toRegister, "manifest+", "manifest! manifest has digest 12, assigned is "+
			"34"), nil, nil, SignatureRefused, "has digest", "pando store check"},
		{"source unreachable", with(toRegister, "manifest+", "manifest! http://10.0.0.1:8480: connection "+
			"refused"), nil, nil, Unreachable, "connection refused", "8480"},
		{"device failed", with(toRegister, "manifest-", "device+", "device! attach the root device: no such "+
			"device"), nil, nil, DeviceFailed, "no such device", "pando store check"},
		{"mount failed", with(toRegister, "manifest-", "device-", "root+", "root! mount erofs on /dev/nbd0: invalid "+
			"argument"), nil, nil, MountFailed, "invalid argument", "erofs"},
		{"config failed", with(toRegister, "manifest-", "device-", "root-", "config+", "config! write /etc/hosts: no "+
			"space left"), nil, nil, NotPrepared, "no space left", "write limit"},
		{"no init", with(toRoot, "switchroot+", "switchroot! the image has no init"), nil, nil, NoInit, "no init",
			"systemd-sysv"},
		{"panic", with(toSystemd, "booted? Kernel panic - not syncing: Attempted to kill "+
			"init!"), nil, usual, Panic, "not syncing", "console"},
		{"panic of a node that was up", with(toUp, "@1h", "booted? Kernel panic - not syncing: Fatal "+
			"exception"), nil, usual, Panic, "Fatal exception", "--image NAME@VERSION"},
		{"emergency mode", with(toSystemd, "booted! emergency or rescue mode; failed units: home.mount", "@1h"), nil,
			usual, EmergencyMode, "home.mount", "/etc/fstab"},
		{"up, a unit failed", toUp, []string{"nginx.service"}, nil, UnitsFailed, "1 unit failed: " +
			"nginx.service", "systemctl status nginx.service"},
		{"up, units failed", toUp, []string{"a.service", "b.mount"}, nil, UnitsFailed, "2 units failed: " +
			"a.service, b.mount", "a.service"},
		{"gone in firmware", with(toAddress, "@60s"), nil, usual, GoneInFirmware, "no boot file", "Secure Boot"},
		{"gone in firmware, nothing known", with(toAddress, "@3m"), nil, nil, GoneInFirmware, "no boot file",
			"Secure Boot"},
		{"in firmware, not for long", with(toAddress, "@60s"), nil, nil, "", "", ""},
		{"gone in the loader", with(toLoader, "@60s"), nil, usual, GoneInLoader, "usually 6s", "portfast"},
		{"gone after the script", with(toScript, "@60s"), nil, usual, GoneAfterScript, "no kernel", "screen"},
		{"gone after the kernel", with(toScript, "kernel+", "kernel-", "@60s"), nil, usual, GoneAfterScript,
			"no initramfs", "memory"},
		{"gone in the kernel", with(toKernel, "@60s"), nil, usual, GoneInKernel, "usually 10s", "driver"},
		{"in the kernel, not for long", with(toKernel, "@30s"), nil, usual, "", "", ""},
		{"hangs at its root", with(toRegister, "manifest-", "device-", "root+", "@30s", "root? no server "+
			"answers", "@30s"), nil, usual, Hangs, "hangs at root for 1m2s (usually 2s); it said last: no server " +
			"answers", "screen"},
		{"does not reach its target", with(toSystemd, "@3m"), nil, usual, NotStarted, "default target",
			"systemctl list-jobs"},
		{"systemd takes its time", with(toSystemd, "@80s"), nil, usual, "", "", ""},
		{"waits for its turn", with(toLoader, "script+", "script? waits for its turn: place 9, about 40s", "@5m"),
			nil, usual, "", "", ""},
		{"had its turn, and is gone", with(toLoader, "script+", "script? waits for its turn: place 9, about "+
			"40s", "@5m", "script+", "script- lab", "@2m"), nil, usual, GoneAfterScript, "no kernel", ""},
		{"waits for its adoption", with(toLoader, "script+ this machine is new here", "@1h"), nil, usual, "", "", ""},
		{"fixed", with(toRegister, "manifest+", "manifest! connection refused", "manifest-"), nil, usual, "", "", ""},
		{"up", toUp, nil, usual, "", "", ""},
		{"state is away", with(toSystemd, "booted! node state waits for nas:/x"), nil, nil, StateAway, "nas:/x", "on"},
		{"went down", with(toUp, "shutdown-", "@1h"), nil, usual, "", "", ""},
		{"lost its root", with(toUp, "shutdown! nobody answers"), nil, usual, RootLost, "nobody", "memory"},
		{"went down early", with(toSystemd, "shutdown- it goes down"), nil, nil, NotStarted, "it goes down", "console"},
		{"began again", with(toKernel, "shutdown! new"), nil, usual, GoneInKernel, "not heard of since; new", "panic"},
	} {
		events, now := eventsOf(t, tt.boot...)
		d, ok := Diagnose(events, Facts{FailedUnits: tt.units, Usual: tt.usual}, now)
		if ok != (tt.fault != "") || ok && d.Fault != tt.fault {
			t.Errorf("%s: %v %q (%s), want %q", tt.name, ok, d.Fault, d.Text, tt.fault)
			continue
		}
		seen[d.Fault] = true
		if ok && (!strings.Contains(d.Text, tt.says) || !strings.Contains(d.Do, tt.advice) || d.Do == "" ||
			strings.Contains(d.Text, "\n") || d.Since.IsZero()) {
			t.Errorf("%s: says %q\n to do: %q\n since %v", tt.name, d.Text, d.Do, d.Since)
		}
	}
	for _, f := range Faults() {
		if !seen[f] {
			t.Errorf("no boot here has the fault %s", f)
		}
	}
}

// A closed port of the server is not taken for a refusal by the server, and no refusal for a closed port.
func TestRefusedByServerOrPort(t *testing.T) {
	for failure, want := range map[string]Fault{
		"register with the server: registration refused: unknown token":                           Refused,
		"token already used: second registration from 10.0.0.9":                                   Refused,
		"registration from 10.0.0.9 refused: no DHCP exchange gave 52:54:00:01:00:01 its address": Refused,
		"register with the server: dial tcp 10.0.0.1:8443: connect: connection refused":           Unreachable,
	} {
		events, now := eventsOf(t, with(toKernel, "init-", "address-", "hello+", "hello! "+failure)...)
		if d, ok := Diagnose(events, Facts{}, now); !ok || d.Fault != want {
			t.Errorf("%q: %v %s, want %s", failure, ok, d.Fault, want)
		}
	}
}

// TestAHintOfTheFailureWins: the hint of a failure is preferred to the general one.
func TestAHintOfTheFailureWins(t *testing.T) {
	events, now := eventsOf(t, with(toRegister, "root+", "root! mount erofs: invalid argument")...)
	events[len(events)-1].Hint = "this one knows"
	if d, ok := Diagnose(events, Facts{}, now); !ok || d.Do != "this one knows" {
		t.Errorf("%v: %q", ok, d.Do)
	}
}

// TestRetriesAreNoProgress: a stage that fails, waits and tries again makes no progress.
func TestRetriesAreNoProgress(t *testing.T) {
	events, now := eventsOf(t, with(toRegister, "manifest-", "device+")...)
	for range 20 {
		now = now.Add(15 * time.Second)
		events = append(events, Event{Time: now, Stage: Device, Kind: Info, Message: "still trying after a while"})
	}
	if d, ok := Diagnose(events, Facts{}, now); !ok || d.Fault != Hangs {
		t.Errorf("%v: %s %s", ok, d.Fault, d.Text)
	}
}

// If iPXE was told where its script is and did not request it, the diagnosis is a firewall, not Secure Boot. If it got
// no address, the diagnosis says why.
func TestDiagnoseSaysWhatWasSeen(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	event := func(after time.Duration, stage Stage, kind Kind, message, script string) Event {
		e := Event{Time: at.Add(after), Stage: stage, Kind: kind, Message: message}
		if script != "" {
			e.Attrs = map[string]string{AttrScriptAt: script}
		}
		return e
	}
	const script = "http://10.0.0.1:8480/boot/script"
	told := event(3*time.Second, BootFile, Info, "iPXE runs and was told the address of its script", script)
	dhcp := []Event{event(0, DHCP, Begin, "pxe", ""), event(time.Second, DHCP, End, "", "")}
	loaded := append(dhcp[:2:2], event(time.Second, BootFile, Begin, "", ""),
		event(2*time.Second, BootFile, End, "", ""))
	for name, events := range map[string][]Event{
		"loader by TFTP": append(loaded[:4:4], told), "iPXE in ROM": append(dhcp[:2:2], told),
	} {
		d, bad := Diagnose(events, Facts{}, at.Add(10*time.Minute))
		if !bad || d.Fault != GoneInLoader || !strings.Contains(d.Text, script) ||
			!strings.Contains(d.Do, "firewall") || strings.Contains(d.Text+d.Do, "Secure Boot") {
			t.Errorf("%s: %+v, %v", name, d, bad)
		}
	}
	if d, _ := Diagnose(loaded, Facts{}, at.Add(10*time.Minute)); !strings.Contains(d.Do, "Secure Boot") {
		t.Errorf("a loader that may not have started: %+v", d)
	}
	stopped := append(dhcp[:1:1], event(0, DHCP, Info, "this server stopped giving addresses", ""))
	if d, bad := Diagnose(stopped, Facts{}, at.Add(10*time.Minute)); !bad || d.Fault != NoLease ||
		!strings.Contains(d.Text, "stopped giving addresses") {
		t.Errorf("no address: %+v, %v", d, bad)
	}
}
