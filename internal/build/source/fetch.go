package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"
)

const (
	fetchers   = 3                // layers fetched at once, as Docker does
	fetchTries = 5                // tries in a row that bring no byte
	fetchPause = 2 * time.Second  // pause before the next try, multiplied by the number of tries so far
	fetchStall = 60 * time.Second // a connection that brings no byte for this time is given up
)

// fetch downloads the layers from a registry into a directory, which may have layers of an earlier call.
func (i *ociImage) fetch(ctx context.Context, keep string, b *budget, bar *bar) error {
	if i.local() {
		return nil
	}
	if size := i.size(); size > b.free || size < 0 {
		return fmt.Errorf("its layers have %d MB, more than there is room for: %w", size/1e6, b.tooLarge())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	bar.note("fetching layers")
	for _, l := range i.layers {
		file := filepath.Join(keep, l.desc.Digest.Algorithm+"-"+l.desc.Digest.Hex)
		l.open = func(context.Context) (io.ReadCloser, error) { return os.Open(file) }
	}
	for n, l := range i.distinct() {
		group.Go(func() error {
			if err := i.fetchLayer(ctx, l, keep, bar); err != nil {
				return roomHint(fmt.Errorf("fetch layer %d of %d (%s): %w", n+1, len(i.layers), l, err), keep)
			}
			return nil
		})
	}
	return group.Wait()
}

// distinct returns the layers with each digest once: two goroutines must not write the same file.
func (i *ociImage) distinct() []*ociLayer {
	seen := map[string]bool{}
	var out []*ociLayer
	for _, l := range i.layers {
		if !seen[l.String()] {
			out = append(out, l)
		}
		seen[l.String()] = true
	}
	return out
}

// fetchLayer downloads a layer, or the rest of it, and verifies it. The part from an earlier call is not verified
// alone: if the digest of the whole is wrong, all of it is fetched again.
func (i *ociImage) fetchLayer(ctx context.Context, l *ociLayer, keep string, bar *bar) error {
	file := filepath.Join(keep, l.desc.Digest.Algorithm+"-"+l.desc.Digest.Hex)
	if info, err := os.Stat(file); err == nil && info.Size() == l.desc.Size {
		bar.add(l.desc.Size)
		return nil
	}
	f, err := os.OpenFile(file+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		resumed, err := i.continued(ctx, l, f, bar)
		if err == nil {
			return os.Rename(f.Name(), file)
		}
		var wrong *DigestError
		if !errors.As(err, &wrong) {
			return err
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
		if !resumed {
			return wrong
		}
	}
}

// continued downloads the missing rest of a file, and reports whether the file had a part before.
func (i *ociImage) continued(ctx context.Context, l *ociLayer, f *os.File, bar *bar) (resumed bool, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	sum := newHashing(io.LimitReader(f, l.desc.Size))
	if _, err := io.Copy(io.Discard, sum); err != nil {
		return false, err
	}
	if err := f.Truncate(sum.n); err != nil {
		return false, err
	}
	bar.add(sum.n)
	resumed = sum.n > 0
	if err := i.retried(ctx, l, f, sum, bar); err != nil {
		return resumed, err
	}
	return resumed, sum.is(l.desc.Digest)
}

// retried downloads until the layer is complete. It does not retry if the registry reports an error.
func (i *ociImage) retried(ctx context.Context, l *ociLayer, f *os.File, sum *hashing, bar *bar) error {
	for failed := 0; sum.n < l.desc.Size; {
		before := sum.n
		err := i.fetchRest(ctx, l, f, sum, bar)
		var refused *transport.Error
		if errors.As(err, &refused) && refused.StatusCode < http.StatusInternalServerError &&
			refused.StatusCode != http.StatusTooManyRequests {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var local *os.PathError
		if errors.As(err, &local) {
			return err
		}
		if failed++; sum.n > before {
			failed = 0
		}
		if failed == fetchTries {
			return fmt.Errorf("given up after %d tries; the same command continues: %w", failed, err)
		}
		if failed == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(failed) * fetchPause): // the registry may be restarting
		}
	}
	return nil
}

// fetchRest appends the missing rest to a file, until the connection ends or stalls.
func (i *ociImage) fetchRest(ctx context.Context, l *ociLayer, f *os.File, sum *hashing, bar *bar) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(fetchStall, func() { cancel(errors.New("no data received for a minute")) })
	defer stall.Stop()
	body, err := i.blob(ctx, l.desc, sum.n)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := f.Seek(sum.n, io.SeekStart); err != nil {
		return err
	}
	sum.r = io.LimitReader(body, l.desc.Size-sum.n)
	sum.each = func(n int64) { stall.Reset(fetchStall); bar.add(n) }
	n, err := io.Copy(f, sum)
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
