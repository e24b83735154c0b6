package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/diskreserve"
)

// Names of the files in Options.Dir.
const (
	File       = "registry.db"
	EventsFile = "events.db"
)

// DefaultMaxEvents is how many events are kept: about half a year of 300 nodes that boot twice a day.
const DefaultMaxEvents = 2_000_000

// DefaultMaxEventBytes is how many bytes all events may have together.
const DefaultMaxEventBytes = 1 << 30

// Options are the registry's directory and limits.
type Options struct {
	Dir       string // must exist
	Log       *slog.Logger
	MaxEvents int64 // 0: DefaultMaxEvents

	MaxEventBytes int64 // 0: DefaultMaxEventBytes

	Reserve *diskreserve.Reserve // for boots on a full disk; nil: none
	Now     func() time.Time     // nil: time.Now
}

// Registry is the open database. It is safe for concurrent use. Each file has one writer, a goroutine that puts all
// waiting writes into one transaction, so that a thousand leases share one fsync (group commit). A failed write is
// undone alone.
type Registry struct {
	main, events *file
	log          *slog.Logger
	maxEvents    int64

	maxEventBytes int64
	maxHistory    int64
	maxSamples    int64
	maxFeedings   int64
	feed          feed
	now           func() time.Time
	disk          disk
	memory        memory
	pending       pending
	closing       sync.Once
}

// Open opens both files. It creates missing ones and migrates an older schema. For a file that is damaged, or from a
// newer release, it returns a *FileError. The caller must hold the directory's lock.
func Open(ctx context.Context, o Options) (*Registry, error) {
	if o.MaxEvents == 0 {
		o.MaxEvents = DefaultMaxEvents
	}
	if o.MaxEventBytes == 0 {
		o.MaxEventBytes = DefaultMaxEventBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Registry{
		now:       o.Now,
		disk:      disk{reserve: o.Reserve},
		log:       o.Log,
		maxEvents: o.MaxEvents,

		maxEventBytes: o.MaxEventBytes,
		maxHistory:    MaxHistory,
		maxSamples:    MaxSamples,
		maxFeedings:   MaxFeedings,
	}
	err := r.open(ctx, o.Dir)
	if errors.Is(err, ErrFull) && o.Reserve != nil && o.Reserve.Give() {
		if err = r.open(ctx, o.Dir); err == nil { // the rest of the reserve is for boots
			_ = o.Reserve.Take()
			r.giveReserve()
		}
	}
	if err != nil {
		return nil, err
	}
	if err := r.startFeed(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Registry) open(ctx context.Context, dir string) (err error) {
	if r.main, err = openFile(ctx, filepath.Join(dir, File), mainSchema); err != nil {
		return err
	}
	if r.events, err = openFile(ctx, filepath.Join(dir, EventsFile), eventsSchema); err != nil {
		return errors.Join(err, r.main.close())
	}
	return nil
}

// Close waits for the writes in progress, ends all followers and closes the files. A later write fails.
func (r *Registry) Close() error {
	var err error
	r.closing.Do(func() {
		r.feed.close()
		if d := r.FullDisk(); d != nil && d.InMemory > 0 {
			r.log.Error("the disk is full: boots, leases and events that were in memory are lost",
				"entries", d.InMemory)
		}
		err = errors.Join(r.events.close(), r.main.close())
		if r.disk.reserve != nil {
			_ = r.disk.reserve.Take() // the files' logs are gone: reserve their room
		}
	})
	return err
}

// View runs fn on a consistent state of registry.db. It does not wait for writers, and fn must not wait for anything.
func (r *Registry) View(ctx context.Context, fn func(*Tx) error) error {
	tx, err := r.main.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read registry: %w", err)
	}
	defer tx.Rollback() // the transaction is read-only
	return fn(&Tx{ctx: ctx, tx: tx, over: r.memory.now.Load()})
}

// Update runs fn on registry.db in a transaction. When it returns nil, the change is on disk. An error of fn undoes
// the change and is returned, except ErrDryRun, which becomes nil. fn runs on the writer's goroutine: it must not
// call View or Update, and must not wait. On a full disk Update returns ErrFull.
func (r *Registry) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := r.refused(ctx); err != nil {
		return err
	}
	err := r.update(ctx, fn)
	if errors.Is(err, ErrFull) {
		r.foundFull()
	}
	if errors.Is(err, ErrDryRun) {
		return nil
	}
	return err
}
