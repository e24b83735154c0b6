package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Messages are bounded and strange ones refused; the address is that of who asks.
func TestTrackerMessages(t *testing.T) {
	s := newSite(t, 4, 0)
	send := func(path, body string) (int, string) {
		body = strings.ReplaceAll(body, "PACK", s.pack.String())
		resp, err := http.Post(s.URL+"/swarm/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for name, x := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":            {"join", "x", 400},
		"too large":          {"join", `{"pack":"` + strings.Repeat("x", maxMessage) + `"}`, 400},
		"ask without a join": {"ask", `{"pack":"PACK","port":82,"want":"0","max":1}`, 404},
		"pieces as numbers":  {"ask", `{"pack":"PACK","port":82,"want":[0],"max":1}`, 400},
		"join":               {"join", `{"pack":"PACK","pieces":4,"port":80,"prefix":99}`, 200},
		"no such way":        {"x", `{}`, 404},
		"another pack":       {"join", `{"pack":"sha256:00","pieces":4,"port":80}`, 404},
		"too few pieces":     {"join", `{"pack":"PACK","pieces":3,"port":80}`, 404},
	} {
		if code, text := send(x.path, x.body); code != x.status {
			t.Errorf("%s: status %d %s", name, code, text)
		}
	}
	_, _ = send("join", `{"pack":"PACK","pieces":4}`) // at the usual port
	_, text := send("join", `{"pack":"PACK","pieces":4,"port":81}`)
	var a joinReply
	err := json.Unmarshal([]byte(text), &a)
	slices.SortFunc(a.Peers, netip.AddrPort.Compare)
	if err != nil || fmt.Sprint(a.Peers) != "[127.0.0.1:80 127.0.0.1:8481]" {
		t.Errorf("joined: %s, %v", text, err)
	}
	for pack, status := range map[string]int{s.pack.String(): 200, s.pack.String()[:shortKey]: 200, "": 404, s.pack.String()[:shortKey] + "x": 404, "sha256:x": 404} {
		if code, text := send("ask", `{"pack":"`+pack+`","port":81,"want":"0","max":1}`); code != status {
			t.Errorf("a question about pack %q: status %d %s", pack, code, text)
		}
	}
}

// Only a transfer that was granted, and is over, makes room where the uplink's rate is not known.
func TestOnlyGrantsMakeRoom(t *testing.T) {
	s := newSite(t, 20, 0)
	node := netip.MustParseAddrPort("10.0.0.1:80")
	for range openMost {
		s.tracker.tracker.uplink.spend(
			sending{swarm: &swarm{pack: s.pack.String()}, node: node, piece: 3, since: s.tracker.now()},
			1,
		)
	}
	s.tracker.tracker.Note(s.tracker.now(), s.pack.String(), node, []int{3}, s.ids(s.pack))
	open := func() int { return len(s.tracker.tracker.uplink.open) }
	s.tracker.Sent(node.Addr(), s.pieces[4].ID)
	s.tracker.Sent(netip.MustParseAddr("10.0.0.2"), s.pieces[3].ID)
	if open() != openMost {
		t.Errorf("a transfer that nobody granted made room: %d are under way", open())
	}
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	if open() != openMost-1 {
		t.Errorf("one grant is over, and %d are under way", open())
	}
}

// A node that asks something else gets an empty answer to what it asked before, and is not told that it is unknown.
func TestReplacedQuestion(t *testing.T) {
	s := newSite(t, 40, 1000) // an uplink that is spent at once
	ctx, cancel := context.WithCancel(t.Context())
	post := func(path, body string) string {
		r, err := http.NewRequestWithContext(
			ctx,
			http.MethodPost,
			s.URL+"/swarm/"+path,
			strings.NewReader(strings.ReplaceAll(body, "PACK", s.pack.String())),
		)
		if err != nil {
			return err.Error()
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(b)))
	}
	post("join", `{"pack":"PACK","pieces":40,"port":81}`)
	post("join", `{"pack":"PACK","pieces":40,"port":82}`)
	post("ask", `{"pack":"PACK","port":82,"size":20000,"want":"0-5","max":8}`)
	question := func() <-chan string {
		c := make(chan string, 1)
		go func() { c <- post("ask", `{"pack":"PACK","port":81,"size":20000,"want":"0","max":1}`) }()
		return c
	}
	first := question()
	for held := 0; held == 0; {
		s.tracker.mu.Lock()
		held = len(s.tracker.waiting)
		s.tracker.mu.Unlock()
	}
	second := question()
	if got := <-first; got != `200 {"wait_ms":0}` {
		t.Error(got)
	}
	cancel()
	<-second
}

// counted is a connection that counts its bytes.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// What is taken for the size of messages is what goes over a wire.
func TestHeaderBytes(t *testing.T) {
	s := newSite(t, 40, 0)
	wire := new(atomic.Int64)
	c := &http.Client{
		Transport: &http.Transport{
			DisableCompression: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return counted{conn, wire}, err
			},
		},
	}
	client := trackerClient{s.URL, c, new(atomic.Int64), new(atomic.Int64)}
	node := netip.MustParseAddrPort("127.0.0.1:8481")
	have := NewBitmap(40)
	var joined joinReply
	if err := client.post(t.Context(), "join", joinMessage{Pack: s.pack.String(), Pieces: 40, Port: 8481, Prefix: 24, Have: have}, &joined, time.Minute); err != nil {
		t.Fatal(err)
	}
	near := func(what string, want int64) {
		t.Helper()
		if got := wire.Swap(0); got < want-40 || got > want+40 {
			t.Errorf("%s: %d bytes on the wire, taken for %d", what, got, want)
		}
	}
	near("join", JoinBytes(Join{Swarm: s.pack.String(), Pieces: 40, Node: node, Have: have}, joined.joined()))
	want := []int{0, 1, 2, 3}
	var answer askReply
	q := Question{Swarm: s.pack.String(), Node: node, Size: 20_000, Ask: Ask{Want: want, Upto: 40, Max: 4, Have: have}}
	if err := client.post(t.Context(), "ask", wireAsk(q), &answer, time.Minute); err != nil {
		t.Fatal(err)
	}
	near("ask", AskBytes(q)+AnswerBytes(answer.answer()))
}
