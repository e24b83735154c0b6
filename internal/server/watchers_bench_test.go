package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// The sizes of BenchmarkWatchers: nodes on the map, watching browsers (some are Chromium, each with its own process
// group), boots, and events whose delay until the last browser is measured.
const (
	watchNodes  = 1000
	watchAlike  = 48
	watchReal   = 2
	watchBoots  = 200
	watchRounds = 20
)

// watchTask is the task of the process with the clients.
type watchTask struct {
	URL, Cookie string
	Clients     int
}

// watchDone is that process's answer: when the last client painted a tile, which clients did, and the bytes that all
// clients received.
type watchDone struct {
	Seen  map[string]watchSeen
	Bytes int64
}

type watchSeen struct {
	Last    int64 // nanoseconds since 1970
	Clients int
}

// BenchmarkWatchers measures the cost of fifty browsers on the map while two hundred nodes boot: the server's processor
// time compared with the same boots without browsers, bytes and memory per browser, and the delay of an event.
func BenchmarkWatchers(b *testing.B) {
	s, base, token := startDashboard(b)
	s.addImage()
	boots := s.manyNodes(watchNodes)
	in := ask(b, "POST", base+"/login", "", []byte("to=/&token="+token))
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	if got := ask(b, "GET", base+"/", cookie, nil); got.status != 200 { // this makes the board read the fleet
		b.Fatal(got.status)
	}
	for b.Loop() {
		alone := s.bootsWatched(boots[:watchBoots], 1)
		before := heap()
		c := startChild(b, "watchers", watchTask{base + "/live?fleet=1", cookie, watchAlike})
		var there watchDone
		c.hear(&there)
		var open []*visit
		for range watchReal {
			v := startBrowser(b, base)
			v.Login(token)
			v.Until(`document.getElementById("pulse").textContent === "live"`)
			open = append(open, v)
		}
		with := heap()
		c.tell("forget")
		c.hear(&there)
		watched := s.bootsWatched(boots[:watchBoots], 2)
		c.tell("count")
		var done watchDone
		c.hear(&done)
		var late []float64
		for i := range watchRounds {
			late = append(late, s.lateness(b, c, boots[watchBoots+i], i))
		}
		c.end()
		for _, v := range open {
			v.Until(fmt.Sprintf(`document.querySelectorAll(".t.booted").length === %d`, watchNodes-watchRounds))
			v.Quiet("a watching browser")
		}
		slices.Sort(late)
		b.ReportMetric(float64(alone.Milliseconds())/watchBoots, "ms-CPU-per-boot-unwatched")
		b.ReportMetric(float64(watched.Milliseconds())/watchBoots, "ms-CPU-per-boot-watched")
		b.ReportMetric(
			float64((watched-alone).Microseconds())/watchBoots/(watchAlike+watchReal),
			"us-CPU-per-boot-and-browser",
		)
		b.ReportMetric(float64(done.Bytes)/watchAlike/watchBoots, "bytes-per-boot-and-browser")
		b.ReportMetric(max(float64(with)-float64(before), 0)/(watchAlike+watchReal)/1e3, "kB-memory-per-browser")
		b.ReportMetric(late[len(late)/2], "ms-to-the-last-p50")
		b.ReportMetric(late[len(late)-1], "ms-to-the-last-max")
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// bootsWatched plays boots, a stage each quarter of a second, and returns the processor time of this process.
func (s *site) bootsWatched(boots []registry.Boot, round int) time.Duration {
	s.t.Helper()
	again := slices.Clone(boots)
	s.update(func(tx *registry.Tx) (err error) {
		for i := range again {
			again[i].ID, again[i].Started = fleet.BootID(fmt.Sprintf("%08x%08x", round, 1_000_000+i)), s.now()
			err = errors.Join(err, tx.CreateBoot(again[i]))
		}
		return err
	})
	begun := cpuTime(s.t)
	for _, stage := range []trace.Stage{trace.DHCP, trace.Kernel, trace.Init, trace.Register, trace.Manifest,
		trace.Root,
		trace.SwitchRoot, trace.Booted} {
		s.clock.add(time.Second)
		for part := range slices.Chunk(again, 20) { // the events are spread out
			s.appendAll(part, stage)
			time.Sleep(25 * time.Millisecond) // part of the measurement: events that come together are sent together
		}
	}
	s.settled()
	return cpuTime(s.t) - begun
}

// lateness returns after how many milliseconds the last client has an event.
func (s *site) lateness(b *testing.B, c *child, boot registry.Boot, round int) float64 {
	b.Helper()
	boot.ID, boot.Started = fleet.BootID(fmt.Sprintf("%08x%08x", 7, round)), s.now()
	s.update(func(tx *registry.Tx) error { return tx.CreateBoot(boot) })
	s.clock.add(time.Second)
	at := time.Now()
	s.appendAll([]registry.Boot{boot}, trace.Register)
	for deadline := at.Add(20 * time.Second); time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond) // to leave the processor to what is measured
		c.tell("count")
		var done watchDone
		c.hear(&done)
		if seen := done.Seen[boot.Node]; seen.Clients >= watchAlike {
			return float64(time.Unix(0, seen.Last).Sub(at).Microseconds()) / 1e3
		}
	}
	b.Fatalf("%s was not seen by all", boot.Node)
	return 0
}

// watchAll runs in the process with the clients.
func watchAll(t *testing.T, in *bufio.Reader) {
	d := json.NewDecoder(in)
	var task watchTask
	if err := d.Decode(&task); err != nil {
		t.Fatal(err)
	}
	w := watchers{done: watchDone{Seen: map[string]watchSeen{}}}
	var ready sync.WaitGroup
	for range task.Clients {
		ready.Add(1)
		go w.watch(t, task, ready.Done)
	}
	ready.Wait()
	for {
		w.mu.Lock()
		err := answerParent(w.done)
		w.mu.Unlock()
		var what string
		if err != nil || d.Decode(&what) != nil {
			os.Exit(0) // the clients are still connected, so nothing else ends the process
		}
		if what == "forget" {
			w.mu.Lock()
			w.done = watchDone{Seen: map[string]watchSeen{}}
			w.mu.Unlock()
		}
	}
}

// watchers are clients with common counters.
type watchers struct {
	mu   sync.Mutex
	done watchDone
}

// watch plays one client: a browser's stream.
func (w *watchers) watch(t *testing.T, task watchTask, ready func()) {
	req, err := http.NewRequestWithContext(t.Context(), "GET", task.URL, nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Cookie", task.Cookie)
	res, err := (&http.Transport{}).RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Error(res, err)
		return
	}
	defer res.Body.Close()
	kind, lines := "", bufio.NewReader(res.Body)
	for first := true; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		now := time.Now().UnixNano()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			kind = strings.TrimSpace(text)
			if first {
				first = false
				ready()
			}
		}
		w.mu.Lock()
		w.done.Bytes += int64(len(line))
		if text, ok := strings.CutPrefix(line, "data: "); ok && kind == "tiles" {
			var tiles [][3]string
			if json.Unmarshal([]byte(text), &tiles) == nil {
				for _, tile := range tiles {
					seen := w.done.Seen[tile[0]]
					w.done.Seen[tile[0]] = watchSeen{max(seen.Last, now), seen.Clients + 1}
				}
			}
		}
		w.mu.Unlock()
	}
}
