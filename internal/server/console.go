package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Bounds of what is kept of consoles between two writes.
const (
	consoleEvery = 500 * time.Millisecond
	consoleMost  = registry.MaxConsole // of one boot
	consoleNodes = 2000
	maxReportLog = 16 << 10 // of the kernel's log in one report
)

// consoles takes what kernels say by netconsole.
type consoles struct {
	*Server

	mu    sync.Mutex
	heard map[netip.Addr]*bytes.Buffer
}

// run reads packets until ctx ends.
func (k *consoles) run(ctx context.Context, conn *net.UDPConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	wg.Go(func() { k.flush(ctx) })
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err == nil {
			k.note(from.Addr().Unmap(), buf[:n])
		}
	}
}

// note keeps a packet until it is written. What is too much, or of too many, is dropped: anybody can send here.
func (k *consoles) note(from netip.Addr, text []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.heard[from]
	if b == nil {
		if len(k.heard) >= consoleNodes {
			return
		}
		b = &bytes.Buffer{}
		k.heard[from] = b
	}
	if b.Len()+len(text) <= consoleMost {
		b.Write(text)
	}
}

func (k *consoles) take() map[netip.Addr]*bytes.Buffer {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.heard
	k.heard = map[netip.Addr]*bytes.Buffer{}
	return out
}

// flush writes what was heard, twice a second.
func (k *consoles) flush(ctx context.Context) {
	t := time.NewTicker(consoleEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for from, b := range k.take() {
			if err := k.keep(ctx, from, b.String()); err != nil && ctx.Err() == nil {
				k.log.Error("console not recorded", "peer", from, "err", err)
			}
		}
	}
}

// keep adds what came from an address to the boot of the machine that has it. What nobody has sent is nobody's console.
func (k *consoles) keep(ctx context.Context, from netip.Addr, text string) error {
	b, err := k.bootAt(ctx, from)
	if err != nil || b.ID == "" {
		return err
	}
	text = httpapi.Clip(text, consoleMost)
	if err := k.registry.PutConsole(ctx, b.ID, []byte(text), k.now()); err != nil {
		return err
	}
	says := panicked(text)
	if says == "" {
		return nil
	}
	p, err := k.registry.Progress(ctx, b.ID)
	if err != nil || p[b.ID].Panic {
		return err
	}
	_, err = k.registry.Append(
		ctx,
		trace.Event{Time: k.now(), Boot: b.ID, Node: b.Node, MAC: b.MAC, Stage: p[b.ID].Stage, Kind: trace.Info,
			Message: says, Attrs: map[string]string{trace.AttrPanic: "true"}},
	)
	return err
}

// bootAt is the latest boot of the machine that has an address: from memory, or, long after its boot, from the record.
func (k *consoles) bootAt(ctx context.Context, from netip.Addr) (registry.Boot, error) {
	if c := k.boots.At(from); c != nil {
		c.Lock()
		defer c.Unlock()
		return c.Boot, nil
	}
	var found registry.Boot
	err := k.registry.View(ctx, func(tx *registry.Tx) error {
		latest, err := tx.LatestBoots()
		for _, b := range latest {
			if b.Addr == from && b.Started.After(found.Started) {
				found = b
			}
		}
		return err
	})
	return found, err
}

var panicLine = regexp.MustCompile(`Kernel panic - not syncing: [^\n]*`)

// panicked is what a kernel says when it gives up, "" if it does not.
func panicked(text string) string { return strings.TrimSpace(panicLine.FindString(text)) }

// levelMark is how the kernel's log begins a line for who reads it raw.
var levelMark = regexp.MustCompile(`(?m)^<\d+>`)

// keepReported adds the part of the kernel's log that came with a report and is not there yet.
func (s *Server) keepReported(ctx context.Context, boot fleet.BootID, text string) error {
	text = levelMark.ReplaceAllString(httpapi.Clip(text, maxReportLog), "")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	old, err := s.registry.Console(ctx, boot)
	if err != nil {
		return err
	}
	if fresh := unseen(old, text); fresh != "" {
		return s.registry.PutConsole(ctx, boot, []byte(fresh), s.now())
	}
	return nil
}

// unseen is what follows in text after the last line of old.
func unseen(old, text string) string {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	old = strings.TrimRight(old, "\n")
	last := old[strings.LastIndexByte(old, '\n')+1:]
	if last == "" {
		return text
	}
	if i := strings.LastIndex("\n"+text, "\n"+last+"\n"); i >= 0 {
		return text[i+len(last)+1:]
	}
	return text
}
