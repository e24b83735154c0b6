package peer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
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
		"no port":            {"join", `{"pack":"PACK","pieces":4}`, 404},
		"ask without a join": {"ask", `{"pack":"PACK","port":80,"want":[0],"max":1}`, 404},
		"join":               {"join", `{"pack":"PACK","pieces":4,"port":80,"prefix":99}`, 200},
		"no such way":        {"x", `{}`, 404},
		"another pack":       {"join", `{"pack":"sha256:00","pieces":4,"port":80}`, 404},
		"too few pieces":     {"join", `{"pack":"PACK","pieces":3,"port":80}`, 404},
	} {
		if code, text := send(x.path, x.body); code != x.status {
			t.Errorf("%s: status %d %s", name, code, text)
		}
	}
	_, text := send("join", `{"pack":"PACK","pieces":4,"port":81}`)
	var a joinReply
	if err := json.Unmarshal([]byte(text), &a); err != nil || fmt.Sprint(a.Peers) != "[127.0.0.1:80]" {
		t.Errorf("joined: %s, %v", text, err)
	}
}

// Only a transfer that was granted, and is over, makes room where the uplink's rate is not known.
func TestOnlyGrantsMakeRoom(t *testing.T) {
	s := newSite(t, 20, 0)
	node := netip.MustParseAddrPort("10.0.0.1:80")
	for range unknownMost {
		s.tracker.tracker.uplink.spend(s.tracker.now(), 1)
	}
	s.tracker.note(node.Addr(), []int{3}, s.ids(s.pack))
	open := func() int { return len(s.tracker.tracker.uplink.open) }
	s.tracker.Sent(node.Addr(), s.pieces[4].ID)
	s.tracker.Sent(netip.MustParseAddr("10.0.0.2"), s.pieces[3].ID)
	if open() != unknownMost {
		t.Errorf("a transfer that nobody granted made room: %d are under way", open())
	}
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	s.tracker.Sent(node.Addr(), s.pieces[3].ID)
	if open() != unknownMost-1 {
		t.Errorf("one grant is over, and %d are under way", open())
	}
}
