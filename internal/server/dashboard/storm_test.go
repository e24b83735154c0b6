package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// TestCurvesKeepSums: of samples of any width, also across the storm's limits, the bytes inside the storm are drawn,
// for each server separately, and the table has the same rates.
func TestCurvesKeepSums(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 700e6, time.UTC)
	at := began.Truncate(time.Second)
	samples := []api.Sample{
		{Server: "a", At: at, Width: time.Second, Sent: 100, Read: 10},
		{Server: "a", At: at.Add(time.Second), Width: 4 * time.Second, Sent: 400},
		{
			Server:  "b",
			At:      at.Add(2 * time.Second),
			Width:   time.Second,
			Sent:    50,
			Written: 70,
		},
		{Server: "a", At: at.Add(time.Hour), Width: time.Second, Sent: 1e9},
	}
	c := newCurves(samples, began, 10*time.Second, []time.Duration{3 * time.Second, 9 * time.Second})
	if len(c.Sent.Lines) != 2 || c.Sent.Sum < 545 || c.Sent.Sum > 550 || c.Sent.Lines[1].Sum != 50 ||
		c.Disk.Lines[0].Sum != 10 ||
		c.Disk.Lines[1].Sum < 68 ||
		c.Disk.Lines[1].Sum > 70 {
		t.Errorf("sent %+v, disk %+v", c.Sent, c.Disk)
	}
	sum := int64(0)
	for _, r := range c.Rows {
		sum += r.Sent
	}
	if len(c.Rows) != 10 || sum < 540 || sum > 550 || c.Rows[9].Up != 2 || c.Rows[1].Up != 0 ||
		!strings.Contains(c.Tips, "2 up") {
		t.Errorf("rows %+v: %s", c.Rows, c.Tips)
	}
	if long := newCurves(samples, began, 20*time.Hour, nil); len(long.Sent.Lines[0].steps) != mostSteps ||
		len(long.Rows) > tableRows {
		t.Errorf("%d steps, %d rows", len(long.Sent.Lines[0].steps), len(long.Rows))
	}
	if none := newCurves(nil, began, time.Minute, nil); none.Sent.Lines != nil || len(none.Rows) == 0 {
		t.Errorf("without samples: %+v", none)
	}
}

// fedStorm returns a storm of n nodes in some places. Each node received from the server and from the node before it,
// and the last one from a node that was up already.
func fedStorm(n, places int) (told []api.Feeding, boots []api.PastBoot) {
	name := func(i int) string { return fmt.Sprintf("pc%05d", i) }
	for i := range n {
		id := fleet.BootID(fmt.Sprintf("%016x", i))
		f := api.Feeding{
			Boot:  id,
			Node:  name(i),
			Place: fmt.Sprintf("r%03d", i*places/n),
			From:  []api.Sender{{Other: "10.0.0.1:8480", Bytes: 1000}},
		}
		if i > 0 {
			f.From = append(f.From, api.Sender{Node: name(i - 1), Bytes: 3000})
		}
		if i == n-1 {
			f.From = append(f.From, api.Sender{Node: "elder", Bytes: 5})
		}
		told, boots = append(told, f), append(boots, api.PastBoot{ID: id, Node: name(i)})
	}
	return append(told, api.Feeding{Boot: "another", Node: "x"}), boots
}

// TestWhoFedWhom: received bytes equal sent bytes, those within a place are separate, and the picture of ten thousand
// nodes is small enough to send.
func TestWhoFedWhom(t *testing.T) {
	v := newFeed(fedStorm(8, 2))
	if v.Boots != 8 || v.Best == nil || v.Best.Gave != 3000 || len(v.Places) != 2 || v.Matrix == nil ||
		len(v.Matrix.Lines) != 1 ||
		len(v.Matrix.Labels) != 8 {
		t.Fatalf("%+v", v)
	}
	if want := 8000.0 * 8 / (8000 + 21000 + 5); v.Roots < want-0.01 || v.Roots > want+0.01 ||
		v.FromSamePlace < 18000.0/21005-0.01 ||
		v.FromSamePlace > 18000.0/21005+0.01 {
		t.Errorf("the root %v times, %v near", v.Roots, v.FromSamePlace)
	}
	if last := v.Nodes[7]; last.Peers != 3005 || last.Gave != 0 || len(last.Most) != 2 || v.Nodes[0].Gave != 3000 ||
		v.Nodes[0].Server != 1000 {
		t.Errorf("%+v", v.Nodes)
	}
	far := v.Places[1].Sources
	if len(far) != 3 || far[1].Bytes != 9000 || far[2].Text != "elsewhere" || far[2].Bytes != 3005 {
		t.Errorf("the second place: %+v", far)
	}
	for places, most := range map[int]int{1: matrixRows, 400: 2 * matrixRows, 9000: 2 * matrixRows} {
		m := newFeed(fedStorm(10_000, places)).Matrix
		if m.Height > most || m.Height < matrixRows/2 || len(m.Tips) > 1<<20 ||
			len(strings.Join(m.Levels, "")) > 1<<20 {
			t.Errorf("%d places: %d rows, %d bytes of names", places, m.Height, len(m.Tips))
		}
	}
	told, boots := fedStorm(3, 1)
	for i := range told {
		told[i].From = told[i].From[:min(1, len(told[i].From))]
	}
	if v := newFeed(told, boots); v.Matrix != nil || v.Roots != 3 || v.Places != nil {
		t.Errorf("all from the server: %+v", v)
	}
}
