package main

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

// badAnswer is an answer that a bad peer spoiled, and that was waited for.
type badAnswer struct {
	To    netip.Addr    `json:"to"`
	Ended time.Time     `json:"ended"`
	Took  time.Duration `json:"took"`
}

// badNote is what a bad peer did to whom. The lab reads it when the peer has ended.
type badNote struct {
	mu      sync.Mutex
	Answers []badAnswer `json:"answers"`
}

// add notes an answer that ends now.
func (n *badNote) add(r *http.Request, begun time.Time) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Answers = append(n.Answers, badAnswer{from.Addr().Unmap(), now, now.Sub(begun)})
}

// save writes the note whole, or not at all.
func (n *badNote) save(file string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return store.WriteFile(file, b, 0o644)
}

// readBadNotes reads the answers of all bad peers of a run.
func readBadNotes(files []string) (out []badAnswer, err error) {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var n badNote
		if err := json.Unmarshal(b, &n); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, n.Answers...)
	}
	return out, nil
}
