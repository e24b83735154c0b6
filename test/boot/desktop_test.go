package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

const (
	desktop = "desktop"

	// browser is the mark that the image sets when a page is on the screen.
	browser = trace.Stage("browser")

	// browserTimeout bounds the time from power-on to that mark; an emulated desktop takes at least five minutes.
	browserTimeout = 20 * time.Minute

	// fewColours is more than a text screen has, and fewer than a desktop has.
	fewColours = 500

	// Commands that find the browser's window, run as root.
	inSession  = "export DISPLAY=:0 XAUTHORITY=/home/lab/.Xauthority; "
	findWindow = inSession + `xdotool search --onlyvisible --name '^Welcome to the lab.* Mozilla Firefox$' getwindowname %@`
)

// The recipe debian-desktop boots to a logged-in desktop with a page in the browser, and the timeline has the mark. Two
// boots record their reads until that mark, as requested; the third has these in its boot pack.
func TestRealBootDesktop(t *testing.T) {
	needFull(t)
	dir, err := withImages(t.Context(), desktop, base, map[string]string{desktop: "debian-desktop"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteIn(t, newNet(t), dir, "own")
	s.group(desktop)
	var last desktopBytes
	for i := range 3 {
		n := node{
			name:     fmt.Sprintf("seat%d", i+1),
			mac:      fleet.MAC{0x52, 0x54, 0, 17, 0, byte(i + 1)},
			firmware: testkit.BIOS,
			group:    desktop,
			memory:   3072,
			cpus:     2,
			screen:   true,
		}
		s.announce(n)
		if i == 2 {
			pack := s.waitPack(n)
			t.Logf(
				"boot pack of %d boots: %d pieces, %.1f MB, %.1f MB sent",
				pack.Boots,
				pack.Pieces,
				float64(pack.Raw)/1e6,
				float64(pack.Stored)/1e6,
			)
		} else if _, err := s.API.SetRecording(t.Context(), n.name,
			api.RecordingSet{Until: string(browser)}); err != nil {
			t.Fatal(err)
		}
		last = s.bootDesktop(n, i < 2)
	}
	if got := float64(last.Bytes["pack"]); got < 0.9*float64(last.Read) {
		t.Errorf("%.0f of %d bytes read until the browser were in the pack", got, last.Read)
	}
}

// desktopBytes are the bytes of a boot, as the block daemon counts them.
type desktopBytes struct {
	Bytes map[string]int64 `json:"bytes"` // by source
	Read  int64            `json:"read"`  // by the kernel
	Reads int64            `json:"reads"`
}

// bootDesktop boots a node until its browser shows a page, checks that from inside and outside, and switches it off.
// recorded: the boot was requested to record its reads.
func (s *site) bootDesktop(n node, recorded bool) desktopBytes {
	s.t.Helper()
	m, booted := s.powerOn(n)
	s.waitEventFor(n.name, browserTimeout, m, func(e trace.Event) bool { return e.Stage == browser })
	s.waitUp(n, m)
	g := s.shell(n)
	bytes := s.desktopBytes(g)
	s.t.Logf("%s: %d reads of %.1f MB until the browser, %.1f MB received: %.2f; %.1f MB of the reads were in the pack",
		n.name, bytes.Reads, float64(bytes.Read)/1e6, float64(bytes.Bytes["server"])/1e6,
		float64(bytes.Bytes["server"])/float64(bytes.Read), float64(bytes.Bytes["pack"])/1e6)
	s.screen(n, m)
	for _, look := range []struct{ what, command, want string }{
		{"session of lab", "loginctl show-user lab --property=State --value", "active"},
		{"its desktop", "pgrep -u lab -x xfce4-session >/dev/null && echo runs", "runs"},
		{"the browser's window", findWindow, "Welcome to the lab — Mozilla Firefox"},
		{"time until the screen blanks", inSession + `xset q | awk '$1 == "timeout:" {print $2}'`, "0"},
		{"language", "systemctl show-environment | grep ^LANG=", "LANG=en_US.UTF-8"},
		{"failed units", "systemctl --failed --no-legend --plain | cut -d' ' -f1", ""},
		{"disks that the desktop offers", "udevadm info --query=property --property=UDISKS_IGNORE --value " +
			"/dev/nbd0", "1"},
	} {
		if got := s.run(g, look.command); got != look.want {
			s.t.Errorf("%s: %s: %q, expected %q", n.name, look.what, got, look.want)
		}
	}
	s.noErrors(n, g)
	s.recording(n, m)
	if recorded {
		s.recordedUntil(n, m, browser)
	}
	s.t.Logf("%s", s.showBoot(n))
	if err := m.Close(); err != nil {
		s.t.Error(err)
	}
	booted()
	return bytes
}

// recordedUntil expects the server to have the requested recording of a node until a mark.
func (s *site) recordedUntil(n node, m *testkit.Machine, mark trace.Stage) {
	s.t.Helper()
	var r api.Recording
	s.wait(n.name, stepTimeout, m, func(api.Node) bool {
		all, err := s.API.Recordings(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		own := slices.DeleteFunc(all, func(r api.Recording) bool { return r.Node != n.name })
		if len(own) == 1 { // the request and the result may both be listed for a moment
			r = own[0]
		}
		return r.Boot != ""
	})
	s.t.Logf("%s: recorded until %s: %d reads of %.1f MB", n.name, r.Until, r.Reads, float64(r.Read)/1e6)
	if r.Until != string(mark) || !r.Reached || r.Reads == 0 {
		s.t.Errorf("recording of %s: %+v", n.name, r)
	}
}

// desktopBytes reads the block daemon's counters. The image has perl and no curl.
func (s *site) desktopBytes(g *testkit.Guest) (out desktopBytes) {
	s.t.Helper()
	const ask = `perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new("/run/pando/block.sock") or die $!;
		print $s "GET /status HTTP/1.0\r\nHost: x\r\n\r\n"; print <$s>' | tail -n 1`
	if err := json.Unmarshal([]byte(s.run(g, ask)), &out); err != nil || out.Read == 0 {
		s.t.Fatalf("status of the block daemon: %+v %v", out, err)
	}
	return out
}

// screen waits until the screen is not black, and saves a picture of it.
func (s *site) screen(n node, m *testkit.Machine) {
	s.t.Helper()
	file := filepath.Join(workDir, n.name+".png")
	colours := 0
	s.wait(n.name, stepTimeout, m, func(api.Node) bool {
		shot, err := m.Screenshot(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		colours = testkit.Colours(shot)
		f, err := os.Create(file)
		if err != nil {
			s.t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, shot); err != nil {
			s.t.Fatal(err)
		}
		return colours > fewColours
	})
	s.t.Logf("%s: %d colours on the screen, see %s", n.name, colours, file)
}

// showBoot returns the timeline of a node's boot as the command prints it.
func (s *site) showBoot(n node) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(binDir, "pando"), "--data", s.Config.Data, "boot", "show",
		n.name).
		CombinedOutput()
	if err != nil {
		s.t.Error(err)
	}
	return strings.TrimSpace(string(out))
}
