package tracker

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// TestExampleOfThePage: the messages that the page on the swarm's formats shows get the replies that it shows.
func TestExampleOfThePage(t *testing.T) {
	synctest.Test(t, exampleOfThePage) // all messages arrive at the same moment
}

func exampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/swarm.md")
	if err != nil {
		t.Fatal(err)
	}
	pack := chunk.Sum([]byte("pack"))
	s := New(swarm.TrackerOptions{Uplink: 12_500_000, Random: chance()}, func(id chunk.ID) []chunk.ID {
		if id == pack {
			return make([]chunk.ID, 40)
		}
		return nil
	}, nil)
	h := s.Handler()
	shown := regexp.MustCompile(`(?m)^    (\S+)\$ curl -d '(\S+)' 10\.0\.0\.1:8480(/swarm/\w+)\n    (.*)$`).
		FindAllStringSubmatch(string(page), -1)
	if len(shown) < 4 {
		t.Fatalf("the page has %d messages", len(shown))
	}
	for _, m := range shown {
		r := httptest.NewRequest(http.MethodPost, m[3], strings.NewReader(m[2]))
		r.RemoteAddr = m[1] + ":1024"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != m[4] {
			t.Errorf("%s %s of %s: %d %s, the page has %s", m[3], m[2], m[1], w.Code, got, m[4])
		}
	}
}
