package blockd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/blockdev"
	"pando/internal/cache"
	"pando/internal/chunk"
	"pando/internal/hardware"
	"pando/internal/link"
	"pando/internal/nbd"
	"pando/internal/piecestore"
	"pando/internal/rootdaemon"
	"pando/internal/store"
	"pando/internal/swarm"
	"pando/internal/swarm/peer"
)

// File descriptors of the block daemon, beside standard input (the blockapi.Config as JSON), output and error.
const (
	blockSocketFD  = 3 // the daemon's end of the NBD connection
	blockLedgerFD  = 4
	blockControlFD = 5 // the daemon's end of the control socket
	blockDiskFD    = 6 // first of the optional descriptors: the cache disk, or the socket over which init sends it
)

// Bounds of the block daemon's memory in bytes; see also memoryLimit. The kernel has up to 128 requests in flight,
// which wait in the socket while all buffers are in use.
const (
	blockRequests = 128
	blockBuffers  = 4 << 20
	blockCache    = 3 << 20 // bytes of unpacked chunks
	blockConns    = 8       // connections to each server
)

// blockDaemon is the role DaemonName: it answers the kernel's reads.
type blockDaemon struct {
	cfg     blockapi.Config
	binary  string
	log     *slog.Logger
	ledger  ledger
	memory  *os.File // file of the ledger, passed on to a new supervisor
	watch   *sourceWatch
	stall   *stall
	monitor *netMonitor
	reads   *readRecorder
	through *cache.ReadThrough // nil: neither disk nor memory cache
	pending *pendingCache      // the disk cache behind through; nil: none
	start   time.Time
	proofs  chunk.FastDigests // digests of the boot pack's pieces
	holder  holder
	roomier sync.Once // raises the memory limit when objects are held for the first time

	disk   atomic.Pointer[blockapi.CacheDisk] // nil: not there
	swarm  atomic.Pointer[peer.Node]          // nil: not in a swarm
	pieces atomic.Pointer[piecestore.Store]   // pieces of the boot pack; nil: no pack

	mu      sync.Mutex
	control *controlConn // to the current supervisor
}

// Run is the role DaemonName; it returns the exit status. Package node calls it by argv[0].
func Run() int {
	log := rootdaemon.Log(blockapi.DaemonName)
	d, err := newBlockDaemon(log)
	if err == nil {
		err = d.run(context.Background())
	}
	if err != nil {
		log.Error("block daemon ends", "err", err)
		return 1
	}
	return 0
}

func newBlockDaemon(log *slog.Logger) (*blockDaemon, error) {
	if err := rootdaemon.Become(blockHeap, blockGarbage); err != nil {
		return nil, err
	}
	d := &blockDaemon{log: log, start: time.Now(), memory: os.NewFile(blockLedgerFD, "ledger")}
	if len(os.Args) > 1 {
		d.binary = os.Args[1]
	}
	unix.CloseOnExec(blockLedgerFD)
	var err error
	if d.cfg, err = readBlockConfig(os.Stdin); err != nil {
		return nil, err
	}
	d.cfg.TakeFiles(blockDiskFD)
	if d.ledger, err = openLedger(d.memory); err != nil {
		return nil, err
	}
	if d.control, err = newControlConn(os.NewFile(blockControlFD, "control")); err != nil {
		return nil, err
	}
	d.watch, d.stall = newSourceWatch(d.ledger), newStall(d.ledger)
	d.reads = newReadRecorder(d.ledger.get(countRestarts) > 0)
	d.monitor = newNetMonitor(d.cfg.Network, d.ledger, log)
	return d, nil
}

func readBlockConfig(f *os.File) (c blockapi.Config, err error) {
	defer f.Close()
	if err := json.NewDecoder(f).Decode(&c); err != nil {
		return c, fmt.Errorf("block config: %w", err)
	}
	return c, c.Validate()
}

// run serves reads until the kernel disconnects. Failures of everything else do not end it.
func (d *blockDaemon) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := os.NewFile(blockSocketFD, "nbd")
	sock, err := net.FileConn(end)
	end.Close() // FileConn's copy is close-on-exec: a supervisor that this daemon starts must not inherit the socket
	if err != nil {
		return fmt.Errorf("kernel's socket: %w", err)
	}
	status := &statusServer{d.status, d.setNetwork, d.endReads, d.booted, d.leave, d.hold}
	if err := serveStatus(ctx, blockapi.Socket, status, d.log); err != nil {
		d.log.Warn("status socket cannot be opened", "err", err) // not fatal: reads work without it
	}
	go d.monitor.run(ctx)
	go func() {
		d.watchSupervisor(ctx)
		cancel()
	}()

	dev := &pendingDevice{size: d.cfg.Size, there: make(chan struct{})}
	defer d.closeCache()
	defer dev.close()
	go func() {
		opened, err := d.open(ctx)
		if err != nil {
			_ = d.supervisor().send(controlMessage{Fail: err.Error()})
			d.log.Error("root cannot be opened", "err", err)
			cancel()
			return
		}
		d.reads.begin()
		d.fillCache()
		forget := opened.DropRaw
		d.holder.forget.Store(&forget)
		dev.arrive(opened)
		if err := d.supervisor().send(controlMessage{Ready: true}); err != nil {
			d.log.Warn("supervisor was not notified", "err", err) // the supervisor died; watchSupervisor starts another
		}
	}()
	server := nbd.Server{Requests: blockRequests, Buffer: blockBuffers}
	metered := &meteredDevice{
		reader: dev,
		ledger: d.ledger,
		stall:  d.stall,
		reads:  d.reads,
		broken: d.watch.broken,
	}
	if err := server.ServeKernel(ctx, sock, metered); err != nil {
		return fmt.Errorf("serve the kernel: %w", err)
	}
	return nil
}

// open connects sources, cache and swarm, and fetches the index root.
func (d *blockDaemon) open(ctx context.Context) (*blockdev.Device, error) {
	slow, packed := d.slow(), d.packMap()
	debug.SetMemoryLimit(memoryLimit(d.cfg, packed.StoredSize(), hardware.Memory()))
	d.proofs = packed.ProofsOf()
	client := store.NewClient(blockConns, slow)
	var sources []store.Origin
	for _, url := range d.cfg.Sources() {
		sources = append(
			sources,
			&store.HTTP{
				URL:        url,
				Client:     client,
				Proofs:     d.proofs,
				FromBucket: func(n int) { d.ledger.add(bytesBucket, int64(n)) },
			},
		)
	}
	failover, err := store.NewFailover(d.watch, sources...)
	if err != nil {
		return nil, err
	}
	failover.TimeoutFloor = slow
	cache := d.cfg.Cache
	if cache == 0 {
		cache = blockCache
	}
	retry := store.NewRetry(failover, d.log)
	d.openCache(ctx)
	pack, from := d.pack(packed, retry, slow), chunk.Source(retry)
	node := d.joinSwarm(ctx, retry, slow, pack)
	if node != nil {
		from = node
	}
	d.holder.from = d.kept(from)
	dev, err := blockdev.Open(ctx, &d.holder, blockdev.Options{Index: d.cfg.Index, Size: d.cfg.Size, Cache: cache,
		UnpackAhead: runtime.NumCPU() > 1, Pack: pack, Served: d.served})
	if errors.Is(err, blockdev.ErrBroken) {
		d.watch.broken(err)
	}
	return dev, err
}

// slow returns the lower bound of request timeouts. It begins with the announce delay at this boot's start, and
// follows the tracker's replies. A daemon that replaces another begins with none, because reads are waiting.
func (d *blockDaemon) slow() *store.TimeoutFloor {
	s := &store.TimeoutFloor{}
	if d.cfg.Swarm != nil && d.ledger.get(countRestarts) == 0 {
		s.Set(min(d.cfg.Swarm.AnnounceDelay, swarm.MaxAnnounceDelay))
	}
	return s
}

// served counts bytes that were answered without a fetch.
func (d *blockDaemon) served(source string, n int) {
	switch source {
	case "zero":
		d.ledger.add(bytesZero, int64(n))
	case "pack":
		d.ledger.add(bytesPack, int64(n))
	case "spared":
		d.ledger.add(bytesSpared, int64(n))
	default:
		d.ledger.add(bytesCache, int64(n))
	}
}

func (d *blockDaemon) status(since int64) blockapi.Status {
	waiting := d.stall.flush()
	s := d.ledger.status(since)
	s.Waiting, s.Server, s.Fed = waiting, d.watch.server(), d.watch.senders()
	s.PID, s.Uptime, s.Memory = os.Getpid(), time.Since(d.start), rootdaemon.ResidentMemory()
	if swarm := d.swarm.Load(); swarm != nil {
		control := swarm.Control()
		s.Messages, s.Control, s.Usual = control.Messages, control.Bytes, swarm.TransferTime()
	}
	return s
}

func (d *blockDaemon) setNetwork(n link.Network) error {
	if n.Interface <= 0 {
		return fmt.Errorf("network: interface index %d", n.Interface)
	}
	d.monitor.set(n)
	return d.supervisor().send(controlMessage{Network: &n})
}

func (d *blockDaemon) supervisor() *controlConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.control
}
