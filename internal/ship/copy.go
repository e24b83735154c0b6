package ship

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Options says what to copy.
type Options struct {
	From, To Place
	Ref      fleet.Ref               // NAME, NAME:TAG or NAME@sha256:...
	Progress func(done, total int64) // called with bytes, by one goroutine at a time; may be nil
}

// Result is what Copy copied.
type Result struct {
	Name    string
	Tags    []string
	Kept    []string // those of Tags that did not move, because nodes have the extension by them
	Version fleet.Digest
	Objects int   // objects of the version and its boot packs
	Bytes   int64 // bytes of Objects
	Sent    int   // objects that the receiver did not have
	Moved   int64 // bytes of Sent
}

// Copy copies a version with its name and tag. If it is interrupted, what has arrived stays.
func Copy(ctx context.Context, o Options) (r Result, err error) {
	name, tag, digest, err := o.Ref.Split()
	if err != nil {
		return r, err
	}
	if digest == "" || !o.Ref.Whole() {
		if digest, err = o.From.Find(ctx, o.Ref); err != nil {
			return r, err
		}
	}
	if tag != "" {
		r.Tags = []string{tag}
	}
	r.Name, r.Version = name, digest
	v, err := o.From.StoredVersion(ctx, digest)
	if err != nil {
		return r, fmt.Errorf("read %s from %s: %w", o.Ref, o.From.Name(), err)
	}
	if err := o.To.Accepts(ctx, v); err != nil {
		return r, err
	}
	all, err := objects(ctx, o.From, v)
	if err != nil {
		return r, fmt.Errorf("read %s from %s: %w", o.Ref, o.From.Name(), err)
	}
	missing, err := o.To.Missing(ctx, all)
	if err != nil {
		return r, err
	}
	r.Objects, r.Sent, r.Bytes, r.Moved = len(all), len(missing), bytesOf(all), bytesOf(missing)
	if err := o.move(ctx, missing, r.Moved); err != nil {
		return r, err
	}
	r.Kept, err = o.To.Publish(ctx, v, name, r.Tags)
	return r, err
}

func bytesOf(objects []api.ObjectSize) (n int64) {
	for _, o := range objects {
		n += o.Size
	}
	return n
}

// movers is how many batches are copied at a time: one is read, one is sent, one is written.
const movers = 4

// move copies the missing objects in batches.
func (o Options) move(ctx context.Context, missing []api.ObjectSize, total int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []api.ObjectSize)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := int64(0)
	for range movers {
		wg.Go(func() {
			for b := range batches {
				if err := o.moveBatch(ctx, b); err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				if done += bytesOf(b); o.Progress != nil {
					o.Progress(done, total)
				}
				mu.Unlock()
			}
		})
	}
	for len(missing) > 0 && ctx.Err() == nil {
		n := batch(missing)
		select {
		case batches <- missing[:n]:
		case <-ctx.Done():
		}
		missing = missing[n:]
	}
	close(batches)
	wg.Wait()
	return context.Cause(ctx)
}

// batch returns how many of the objects go into the next batch.
func batch(objects []api.ObjectSize) int {
	size := int64(0)
	for i, o := range objects {
		if size += o.Size; i > 0 && size > api.MaxObjects {
			return i
		}
	}
	return len(objects)
}

// Attempts at a batch when the network fails, and the first pause, which then doubles.
const (
	moveTries = 5
	movePause = time.Second
)

func (o Options) moveBatch(ctx context.Context, objects []api.ObjectSize) (err error) {
	for try := range moveTries {
		err = o.moveOnce(ctx, objects)
		var away *api.UnreachableError
		if !errors.As(err, &away) {
			return err
		}
		select {
		case <-time.After(movePause << try):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

func (o Options) moveOnce(ctx context.Context, objects []api.ObjectSize) error {
	data := make([][]byte, len(objects))
	for i, object := range objects {
		b, err := o.From.Object(ctx, object.ID)
		if err != nil {
			return fmt.Errorf("read from %s: %w", o.From.Name(), err)
		}
		data[i] = b
	}
	if err := o.To.AddObjects(ctx, data); err != nil {
		return fmt.Errorf("write to %s: %w", o.To.Name(), err)
	}
	return nil
}
