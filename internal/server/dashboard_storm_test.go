package server

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"pando/internal/registry"
	"pando/internal/trace"
)

// feed records what a storm of some boots would have left: the server's traffic, and which nodes sent to which.
func (s *site) feed(all []*replayed, began time.Time) {
	s.t.Helper()
	chance := rand.New(rand.NewPCG(1, 2))
	place := func(i int) string { return []string{"b12", "b14"}[i%2] }
	for i, p := range all {
		f := registry.Feeding{
			Boot:    p.boot,
			Node:    fmt.Sprintf("pc%03d", i+1),
			Place:   place(i),
			Started: began.Add(time.Duration(i) * time.Second),
			From:    []registry.Sender{{Other: "10.0.0.1:8480", Bytes: 1_000_000 + chance.Int64N(2_500_000)}},
		}
		for j := range all {
			if j != i && (place(j) == place(i) && chance.IntN(2) == 0 || chance.IntN(6) == 0) {
				f.From = append(
					f.From,
					registry.Sender{Node: fmt.Sprintf("pc%03d", j+1), Bytes: 100_000 + chance.Int64N(4_000_000)},
				)
			}
		}
		slices.SortFunc(f.From, func(a, b registry.Sender) int { return cmp.Compare(b.Bytes, a.Bytes) })
		if err := s.registry.PutFeeding(s.t.Context(), f); err != nil {
			s.t.Fatal(err)
		}
	}
	name, err := os.Hostname()
	if err != nil {
		s.t.Fatal(err)
	}
	var samples []registry.Sample
	for i := range int64(40) {
		x := registry.Sample{
			Server:  name,
			At:      began.Truncate(time.Second).Add(time.Duration(i) * time.Second),
			Width:   time.Second,
			Sent:    max(0, 11_500_000-max(0, i-18)*700_000) + chance.Int64N(400_000),
			Written: chance.Int64N(300_000),
		}
		if i < 6 {
			x.Sent, x.Read = x.Sent*i/6, 9_000_000-i*1_400_000
		}
		samples = append(samples, x)
	}
	if err := s.registry.PutSamples(s.t.Context(), samples...); err != nil {
		s.t.Fatal(err)
	}
}

// TestDashboardStorm: the page of a running storm grows without a reload. Its pictures show details under the pointer,
// and have tables.
func TestDashboardStorm(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	r := readRecorded(t)
	began := s.now()
	var all []*replayed
	boot := func(n byte) {
		t.Helper()
		m := s.node(n)
		m.brisk = 20
		p := m.play(r)
		p.report(trace.Booted, r.Uptime/20)
		all = append(all, p)
	}
	for i := range byte(6) {
		boot(i + 1)
	}
	s.settled()
	v := startBrowser(t, base)
	v.Login(token)
	v.Open("/boots")
	v.Open(v.Run(`document.querySelector('a[href^="/storm"]').getAttribute("href")`))
	v.Until(`document.body.innerText.includes("No node of this storm has told")`)
	v.Until(`document.getElementById("pulse").textContent === "live"`)
	v.Run(`window.sameDocument = true`)
	s.feed(all, began)
	boot(7)
	v.Until(`document.querySelector("h1").innerText.startsWith("7")`)
	v.Until(`document.body.innerText.includes("The server sends")`)
	if v.Run(`window.sameDocument`) != "true" {
		t.Error("the page was loaded again")
	}
	point := func(selector string, x, y float64) {
		t.Helper()
		v.Run(
			fmt.Sprintf(
				`(() => { const b = document.querySelector(%q).getBoundingClientRect(); document.querySelector(%q).dispatchEvent(
			new PointerEvent("pointermove", {bubbles: true, clientX: b.left + b.width * %g, clientY: b.top + b.height * %g})); })(), 0`,
				selector,
				selector,
				x,
				y,
			),
		)
	}
	point(".storm .curve", 0.5, 0.5)
	v.Until(`/\d+ up; .*B\/s sent, .*B\/s read, .*B\/s written/.test(document.querySelector(".tip").textContent)`)
	point(".feed svg", 0.6, 0.5) // some cell of the squares, empty or not
	v.Until(`/^pc00[0-9]: .* from pc00[0-9]/.test(document.querySelector(".tip").textContent)`)
	v.Run(`document.querySelectorAll("details").forEach(d => d.open = true), 0`)
	for _, want := range []string{"The server sent the root", "From the server", "pc003", "Disk read"} {
		v.Until(fmt.Sprintf(`document.body.innerText.includes(%q)`, want))
	}
	v.Quiet("a storm")
}
