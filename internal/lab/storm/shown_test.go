package storm

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/testkit"
)

// The size of the storm on the dashboard.
const (
	shownNodes  = 12
	shownBlocks = 16384 // of its root: 64 MiB
)

// TestStormIsShown: a storm of real block daemons is shown on the server's dashboard during it and afterwards: every
// node on one clock, what the server sent and read from disk in each second, and which node sent to which.
func TestStormIsShown(t *testing.T) {
	needFull(t)
	s, out := newTestStormOf(
		t,
		smallRoot(shownBlocks),
		"--tell",
		"--nodes",
		fmt.Sprint(shownNodes),
		"--systems",
		"peers",
		"--rate",
		"24mbit",
		"--server-rate",
		"90mbit",
		"--think",
		"0.7",
	)
	looked := false
	s.after = func(ctx context.Context) error {
		looked = true
		s.lookAtStorm(ctx, t)
		return nil
	}
	s.ready = func() { forgetCached(t, filepath.Join(s.DataDir(), "store")) }
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !looked {
		t.Error("nobody looked at the storm")
	}
	nothingLeft(t, s)
}

// forgetCached drops the files below a directory from the page cache, so that they are read from disk.
func forgetCached(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lookAtStorm opens the page of the last storm.
func (s *Storm) lookAtStorm(ctx context.Context, t *testing.T) {
	token, err := s.Site.API.CreateToken(ctx, api.TokenCreate{Name: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	v := testkit.NewVisit(t, s.Star.Server, "http://127.0.0.1:8484")
	v.Login(token.Secret)
	v.Open("/boots")
	path := v.Run(`document.querySelector('a[href^="/storm"]').getAttribute("href")`)
	v.Open(path)
	v.Until(`document.getElementById("pulse").textContent === "live"`)
	// The last seconds are recorded after a pause; the page reads them at the next tick of its clock.
	v.Until(`document.querySelector("h1").textContent.startsWith("` + fmt.Sprint(shownNodes) + `")`)
	v.Until(`document.body.innerText.includes("The server sends")`)
	s.checkStorm(t, v)
	v.Accessible("a storm of daemons")
	for _, look := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"storm", 1280, 800, false}, {"storm-dark", 1280, 800, true}, {"storm-phone", 390, 844, false}} {
		v.Window(look.width, look.height, look.dark)
		v.Open(path)
		v.Until(`document.getElementById("pulse").textContent === "live"`)
		v.Run(`document.fonts.ready.then(() => 0)`)
		v.Fits(look.name)
		v.Keep(look.name)
		v.Run(`document.getElementById("feed").scrollIntoView(), 0`)
		v.Keep(strings.Replace(look.name, "storm", "feed", 1))
	}
	v.Quiet("a storm of daemons")
}

// checkStorm compares the page with the lab's own results.
func (s *Storm) checkStorm(t *testing.T, v *testkit.Visit) {
	for what, script := range map[string]string{
		"a line for every node": `document.querySelectorAll("svg.lines g").length === ` +
			fmt.Sprint(shownNodes),
		"all of them up": `document.querySelector("p.caption").innerText.includes("` +
			fmt.Sprintf("%d of %d", shownNodes, shownNodes) + `")`,
		"each in loader, agent and image":  `[..."firmware agent image".split(" ")].every(p => document.querySelectorAll("svg.lines .part-" + p).length === ` + fmt.Sprint(shownNodes) + `)`,
		"percentiles":                      `/took [\d.]+\ss in the middle and [\d.]+\ss at the 95th/.test(document.querySelector("p.lead").innerText)`,
		"percentiles of stages":            `document.querySelectorAll("table.fall tbody tr").length >= 5`,
		"what the server sent each second": `new Set(document.querySelector("polyline.line-0").getAttribute("points").split(" ").map(p => p.split(",")[1])).size > 4`,
		"what its disk did":                `/read [\d.]+\sMB.*written [\d.]+\s[kM]B/.test([...document.querySelectorAll("p.caption")].map(p => p.innerText).join(" "))`,
		"who fed whom":                     `document.querySelectorAll(".feed path[class^=fed-]:not([d=''])").length > 1`,
		"rooms":                            `document.querySelectorAll("table.places tbody tr").length === 2`,
	} {
		if v.Run(script) != "true" {
			t.Errorf("the page does not show %s:\n%s", what, v.Run(`document.body.innerText`))
		}
	}
	v.Run(`document.querySelectorAll("details").forEach(d => d.open = true), 0`)
	if got := v.Run(`[...document.querySelectorAll("#feeders tbody tr")].filter(r => !/^0/.test(r.cells[3].innerText)).length`); got == "0" {
		t.Error("no node took anything from another")
	}
}
