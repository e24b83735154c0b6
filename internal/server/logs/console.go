package logs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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

// Limits of what is held in memory between two writes.
const (
	consoleEvery = 500 * time.Millisecond
	consoleMost  = registry.MaxConsole // bytes of one boot
	consoleNodes = 2000
	maxReportLog = 16 << 10 // bytes of kernel log in one report
)

// Consoles keeps the kernel messages of nodes: what netconsole sends, what agents report, and what pstore held.
type Consoles struct {
	registry *registry.Registry
	bootAt   func(netip.Addr) (registry.Boot, bool)
	now      func() time.Time
	log      *slog.Logger

	mu      sync.Mutex
	pending map[netip.Addr]*bytes.Buffer // received, not yet written
}

// NewConsoles returns a Consoles. bootAt returns the latest boot of the machine at an address, if it is in memory.
func NewConsoles(
	reg *registry.Registry,
	bootAt func(netip.Addr) (registry.Boot, bool),
	now func() time.Time,
	log *slog.Logger,
) *Consoles {
	return &Consoles{registry: reg, bootAt: bootAt, now: now, log: log, pending: map[netip.Addr]*bytes.Buffer{}}
}

// Run receives netconsole packets until ctx ends.
func (k *Consoles) Run(ctx context.Context, conn *net.UDPConn) error {
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

// note buffers a packet until flush writes it. Memory is limited, because anyone can send packets here; packets above
// the limits are dropped.
func (k *Consoles) note(from netip.Addr, text []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.pending[from]
	if b == nil {
		if len(k.pending) >= consoleNodes {
			return
		}
		b = &bytes.Buffer{}
		k.pending[from] = b
	}
	if b.Len()+len(text) <= consoleMost {
		b.Write(text)
	}
}

func (k *Consoles) take() map[netip.Addr]*bytes.Buffer {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.pending
	k.pending = map[netip.Addr]*bytes.Buffer{}
	return out
}

// flush writes the received messages twice a second.
func (k *Consoles) flush(ctx context.Context) {
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
				k.log.Error("console messages cannot be recorded", "from", from, "err", err)
			}
		}
	}
}

// keep adds messages from an address to the boot of the machine there, or drops them if there is none.
func (k *Consoles) keep(ctx context.Context, from netip.Addr, text string) error {
	b, err := k.boot(ctx, from)
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

// boot returns the latest boot of the machine at an address: from memory, or from the registry long after the boot.
func (k *Consoles) boot(ctx context.Context, from netip.Addr) (registry.Boot, error) {
	if b, ok := k.bootAt(from); ok {
		return b, nil
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

// panicked returns the panic message in a kernel's log, "" without one.
func panicked(text string) string { return strings.TrimSpace(panicLine.FindString(text)) }

// levelMark is the log level before each line of a raw kernel log.
var levelMark = regexp.MustCompile(`(?m)^<\d+>`)

// AddReported adds the kernel log of a node's report, without the lines that are recorded already.
func (k *Consoles) AddReported(ctx context.Context, boot fleet.BootID, text string) error {
	text = levelMark.ReplaceAllString(httpapi.Clip(text, maxReportLog), "")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	old, err := k.registry.Console(ctx, boot)
	if err != nil {
		return err
	}
	if fresh := unseen(old, text); fresh != "" {
		return k.registry.PutConsole(ctx, boot, []byte(fresh), k.now())
	}
	return nil
}

// unseen returns the part of text after the line that is the last one in old.
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
