package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"pando/internal/store"
)

// Times of the lock's claim, which its holder renews. Clocks are not compared: a claim that this process has seen
// unchanged for the time abandoned is removed. Its holder stopped writing long before, when no renewal had succeeded
// for the time lost.
const (
	claimsPrefix = "locks/"
	renewEvery   = 10 * time.Second
	lost         = 30 * time.Second
	abandoned    = 75 * time.Second
	claimPause   = 100 * time.Millisecond
)

// seenClaim is the state of another owner's claim, and since when this process has seen it unchanged.
type seenClaim struct {
	modified time.Time // by the service's clock; only compared with itself
	since    time.Time
}

// Lock makes this process the only writer. It writes a claim below locks/ and then lists the claims: if there is no
// other, it has the lock, otherwise it removes its claim. That needs a service whose lists show every earlier put, as
// S3 does, but no conditional put, which not every service has.
func (b *Bucket) Lock(ctx context.Context, owner, purpose string) (store.Lease, error) {
	name := claimsPrefix + owner
	if err := b.alone(ctx, name); err != nil {
		return nil, err
	}
	l := &lease{bucket: b, name: name, text: claimText(purpose), stop: make(chan struct{}), renewed: time.Now()}
	if err := b.claim(ctx, l); err != nil {
		return nil, &Error{b.cfg.URL, fmt.Errorf("lock: %w", err)}
	}
	if err := b.alone(ctx, name); err != nil {
		return nil, errors.Join(err, b.Remove(ctx, name))
	}
	l.done.Go(l.renew)
	return l, nil
}

// claim writes a claim. It retries, because a service on a file system may just be removing the directory of the last
// claim.
func (b *Bucket) claim(ctx context.Context, l *lease) (err error) {
	for range tries {
		if err = b.Put(ctx, l.name, l.text); err == nil {
			return nil
		}
		select {
		case <-time.After(claimPause):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// claimText returns the content of a claim, which is for people.
func claimText(purpose string) []byte {
	host, _ := os.Hostname()
	return fmt.Appendf(nil, "process %d on %s (%s)\n", os.Getpid(), host, purpose)
}

// alone returns a *store.LockedError if there is a claim besides own. It removes abandoned claims.
func (b *Bucket) alone(ctx context.Context, own string) error {
	other := ""
	seen := map[string]seenClaim{}
	err := b.List(ctx, claimsPrefix, func(f store.RemoteFile) error {
		if f.Name == own {
			return nil
		}
		if b.watch(seen, f) > abandoned {
			return b.Remove(ctx, f.Name)
		}
		other = f.Name
		return nil
	})
	b.mu.Lock()
	b.claims = seen
	b.mu.Unlock()
	if err != nil {
		return &Error{b.cfg.URL, fmt.Errorf("lock: %w", err)}
	}
	if other == "" {
		return nil
	}
	return &store.LockedError{Path: b.cfg.URL, Holder: b.holder(ctx, other)}
}

// watch returns how long a claim has been unchanged.
func (b *Bucket) watch(seen map[string]seenClaim, f store.RemoteFile) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.claims[f.Name]
	if !ok || !c.modified.Equal(f.Modified) {
		c = seenClaim{f.Modified, time.Now()}
	}
	seen[f.Name] = c
	return time.Since(c.since)
}

// holder returns the text of a claim.
func (b *Bucket) holder(ctx context.Context, name string) string {
	r, err := b.Get(ctx, name)
	if err != nil {
		return "somebody who is done by now"
	}
	defer r.Close()
	text, _ := io.ReadAll(io.LimitReader(r, 256))
	return string(text[:max(len(text)-1, 0)])
}

// lease is a claim of this process.
type lease struct {
	bucket *Bucket
	name   string
	text   []byte
	stop   chan struct{}
	done   sync.WaitGroup

	mu      sync.Mutex
	renewed time.Time // start of the last successful renewal
	gone    bool
}

// errLost is permanent: a lost lease is never used again.
var errLost = errors.New(
	"the lock of the bucket was lost: the service did not answer in time, or this machine stood still; run the " +
		"same command again",
)

// Held returns nil while no other process can have the lock. It compares wall clocks, too: the monotonic clock stops
// while a machine is suspended.
func (l *lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.gone = l.gone || max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))) > lost; l.gone {
		return fmt.Errorf("write to %s: %w", l.bucket.cfg.URL, errLost)
	}
	return nil
}

func (l *lease) renew() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if l.Held() != nil {
			return
		}
		l.renewOnce()
	}
}

// renewOnce writes the claim again. If the claim is missing, another process took it for abandoned.
func (l *lease) renewOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	begun := time.Now()
	_, err := l.bucket.Stat(ctx, l.name)
	if err == nil {
		err = l.bucket.Put(ctx, l.name, l.text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.renewed = begun
	case errors.Is(err, fs.ErrNotExist):
		l.gone = true
	}
}

// Release removes the claim. If that fails, the next process takes it for abandoned.
func (l *lease) Release() {
	close(l.stop)
	l.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	_ = l.bucket.Remove(ctx, l.name)
}
