package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"pando/internal/store"
)

// BadAnswer is an answer that a bad peer spoiled while a node waited for it.
type BadAnswer struct {
	To    netip.Addr    `json:"to"`
	Ended time.Time     `json:"ended"`
	Took  time.Duration `json:"took"`
}

// BadNote lists the answers that a bad peer spoiled. The lab reads it when the peer has ended.
type BadNote struct {
	mu      sync.Mutex
	Answers []BadAnswer `json:"answers"`
}

// Add records an answer that ends now.
func (n *BadNote) Add(r *http.Request, begun time.Time) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Answers = append(n.Answers, BadAnswer{from.Addr().Unmap(), now, now.Sub(begun)})
}

// Save writes the list atomically.
func (n *BadNote) Save(file string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return store.WriteFile(file, b, 0o644)
}

// ReadBadNotes reads the answers of all bad peers of a run.
func ReadBadNotes(files []string) (out []BadAnswer, err error) {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var n BadNote
		if err := json.Unmarshal(b, &n); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, n.Answers...)
	}
	return out, nil
}
