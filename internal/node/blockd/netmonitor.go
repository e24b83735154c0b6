package blockd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/link"
)

// netMonitor restores link, addresses and routes when something removes them: a network manager of the image, "ip
// link set down", or a shutdown that stops the network before the root. The root needs this interface.
type netMonitor struct {
	ledger ledger
	log    *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	want link.Network
	told map[string]time.Time // when each incident was last reported, by text
}

func newNetMonitor(n link.Network, l ledger, log *slog.Logger) *netMonitor {
	return &netMonitor{ledger: l, log: log, now: time.Now, want: n, told: map[string]time.Time{}}
}

// lookAgain is the interval at which the interface is checked without an event, in case one was lost. After an event
// the monitor waits for settle, because taking a link down causes a dozen events.
const (
	lookAgain = 2 * time.Second
	settle    = 20 * time.Millisecond
)

func (k *netMonitor) wanted() link.Network {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.want
}

func (k *netMonitor) set(n link.Network) {
	k.mu.Lock()
	k.want = n
	k.mu.Unlock()
	k.look()
}

// run maintains the network until ctx ends. Without an interface in the configuration it does nothing until set.
func (k *netMonitor) run(ctx context.Context) {
	events := make(chan struct{}, 1)
	stop := k.subscribe(events)
	defer stop()
	k.look() // for changes before the subscription
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-events:
			time.Sleep(settle)
			select {
			case <-events:
			default:
			}
		}
		k.look()
	}
}

// subscribe sends on events when the kernel reports a change of links, addresses or routes. It ignores the content of
// the messages, because some may be lost: look compares the whole state.
func (k *netMonitor) subscribe(events chan<- struct{}) (stop func()) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		k.log.Warn("kernel sends no network events; the interface is checked every two seconds", "err", err)
		return func() {}
	}
	go func() {
		for {
			_, _, err := s.Receive()
			if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) &&
				!errors.Is(err, unix.EINTR) {
				return // closed; run still has its ticker
			}
			select {
			case events <- struct{}{}:
			default:
			}
		}
	}()
	return s.Close
}

// look compares the interface with the wanted network, and repairs the differences.
func (k *netMonitor) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.want.Interface <= 0 {
		return
	}
	index, gone, err := link.Missing(k.want)
	if err != nil {
		k.tell("cannot watch the network: " + err.Error())
		return
	}
	if len(gone) == 0 {
		return
	}
	k.want.Interface = index
	k.ledger.add(countLinkFixes, 1)
	what := strings.Join(gone, ", ") + " of " + k.want.Name + " had been taken away"
	if err := link.Repair(k.want); err != nil {
		k.tell(what + " and cannot be put back: " + err.Error())
		return
	}
	k.tell(what + "; put back")
}

// tell reports the same text at most once a minute, so that two programs that fight over an interface do not fill the
// log. The caller holds mu.
func (k *netMonitor) tell(text string) {
	if last, ok := k.told[text]; ok && k.now().Sub(last) < tellAgain {
		return
	}
	if len(k.told) >= toldAtMost {
		clear(k.told)
	}
	k.told[text] = k.now()
	k.log.Warn("network problem was found", "what", text)
	k.ledger.report(blockapi.Incident{Kind: blockapi.LinkFixed, Message: text})
}
