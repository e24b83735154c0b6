package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/trace"
)

// xcatprobesStages are the descriptions of the stages of a deployment, in xCAT-probe/lib/perl/probe_global_constant.pm.
var xcatprobesStages = strings.Fields(
	`rpower_to_install powering_on got_ip_from_dhcp download_bootloder download_kernel download_initrd download_kickstart
	installing start_to_install_os_package running_postscripts booting running_postbootscripts complete`,
)

// TestXcatprobesStages: docs/boot-walk.md names a stage for each stage of xcatprobe, and a boot's timeline has all of
// these, ended.
func TestXcatprobesStages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../..", "docs/boot-walk.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := startSite(t)
	s.addImage()
	r := readRecorded(t)
	n := s.node(1)
	n.exchange("pxe")
	n.booter.BootFileSent(n.addr, "undionly.kpxe", 6, s.now(), nil)
	p := n.play(r)
	s.clock.add(r.Uptime)
	p.report(trace.Booted, r.Uptime)
	b, err := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).Boot(t.Context(), p.boot)
	if err != nil {
		t.Fatal(err)
	}
	ended := []string{string(trace.Power)} // which is no stage of a boot
	for _, step := range b.Steps {
		if !step.Open && step.Failure == "" {
			ended = append(ended, string(step.Stage))
		}
	}
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) "+
		"\\|").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(xcatprobesStages, row[1]) {
			continue // a row of another table
		}
		told = append(told, row[1])
		stages := regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row[2], -1)
		if len(stages) == 0 {
			t.Errorf("%s has no stage", row[1])
		}
		for _, stage := range stages {
			if !slices.Contains(ended, stage[1]) {
				t.Errorf("%s is said to be %s, which the boot does not have: %v", row[1], stage[1], ended)
			}
		}
	}
	if !slices.Equal(told, xcatprobesStages) {
		t.Errorf("docs/boot-walk.md has %v, xcatprobe has %v", told, xcatprobesStages)
	}
}
