package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/testkit"
)

// fill writes n objects of size random bytes.
func fill(t *testing.T, d *store.Dir, n, size int) (ids []chunk.ID) {
	t.Helper()
	unlock, err := d.Lock(t.Context(), "fill")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	w := d.NewWriter()
	defer w.Close()
	for range n {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		id, _, err := w.Put(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

func kept(t *testing.T, d *store.Dir) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.Path(), "objects"), func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		info, err := f.Info()
		bytes += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// counting counts what is read from a bucket.
type counting struct {
	*Bucket
	gets atomic.Int64
}

func (c *counting) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Bucket.Get(ctx, name)
}

func TestCache(t *testing.T) {
	b := newBucket(t, service(t), nil)
	ids := fill(t, newCache(t, b, DefaultCache), 40, 100_000)
	t.Run("bounded", func(t *testing.T) {
		d := newCache(t, b, 1_000_000)
		for _, id := range append(ids, ids...) {
			if _, err := d.Get(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if n := kept(t, d); n > 1_000_000 {
				t.Fatalf("%d bytes are kept", n)
			}
		}
	})
	t.Run("each object once", func(t *testing.T) {
		c := &counting{Bucket: b}
		d, err := store.OpenCache(t.TempDir(), c, DefaultCache)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				f, err := d.Open(ids[0])
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			})
		}
		wg.Wait()
		if n := c.gets.Load(); n != 1 {
			t.Errorf("200 readers of one object read it %d times from the bucket", n)
		}
	})
	t.Run("damaged copy", func(t *testing.T) {
		d := newCache(t, b, DefaultCache)
		for _, read := range []func() ([]byte, error){
			func() ([]byte, error) { return d.Get(t.Context(), ids[1]) },
			func() ([]byte, error) {
				d.Refresh(ids[1])
				f, err := d.Open(ids[1])
				if err != nil {
					return nil, err
				}
				defer f.Close()
				return io.ReadAll(f)
			},
		} {
			if _, err := d.Get(t.Context(), ids[1]); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(d.ObjectPath(ids[1]), 10); err != nil {
				t.Fatal(err)
			}
			if got, err := read(); err != nil || chunk.Sum(got) != ids[1] {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
	})
	t.Run("damaged in the bucket", func(t *testing.T) {
		d := newCache(t, b, DefaultCache)
		if err := b.Put(t.Context(), store.ObjectName(ids[2]), []byte("something else")); err != nil {
			t.Fatal(err)
		}
		var wrong *chunk.WrongBytesError
		if _, err := d.Get(t.Context(), ids[2]); !errors.As(err, &wrong) {
			t.Errorf("get: %v", err)
		}
		report, err := d.Check(t.Context(), nil, nil)
		if err != nil || len(report.Problems) != 1 || report.Problems[0].Object != ids[2] {
			t.Errorf("check: %v, %v", report.Problems, err)
		}
	})
}

// TestBucketAway: a server whose bucket does not answer can still boot what it has booted before.
func TestBucketAway(t *testing.T) {
	s := service(t)
	b := newBucket(t, s, nil)
	d := newCache(t, b, DefaultCache)
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := testkit.SmallVersion(t.Context(), d, key, "kernel", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.GetVersion(v); err != nil {
		t.Fatal(err)
	}
	path := d.Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = store.OpenCache(path, b, DefaultCache); err != nil { // the server is started again
		t.Fatal(err)
	}
	if _, err := d.GetVersion(v); err != nil {
		t.Errorf("a version that was read before: %v", err)
	}
	if _, err := d.Get(t.Context(), chunk.Sum([]byte("kernel"))); err != nil {
		t.Errorf("an object that was read before: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := d.Get(ctx, chunk.Sum([]byte("other"))); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that cannot be read now: %v", err)
	}
}

func TestWriteNeedsTheLock(t *testing.T) {
	b := newBucket(t, service(t), nil)
	d := newCache(t, b, DefaultCache)
	w := d.NewWriter()
	defer w.Close()
	if _, _, err := w.Put(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("written without the lock: %v", err)
	}
	unlock, err := d.TryLock("a machine that stands still")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	w = d.NewWriter()
	defer w.Close()
	if _, _, err := w.Put(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Errorf("written with the lock: %v", err)
	}
}

// TestLeaseIsLost: a holder whose last renewal is too old stops writing before another process can take the lock.
func TestLeaseIsLost(t *testing.T) {
	b := newBucket(t, service(t), nil)
	got, err := b.Lock(t.Context(), "one", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	l := got.(*lease)
	if err := l.Held(); err != nil {
		t.Fatal(err)
	}
	other := again(t, b)
	var locked *store.LockedError
	if _, err := other.Lock(t.Context(), "two", "test"); !errors.As(err, &locked) ||
		!strings.Contains(locked.Holder, "test") {
		t.Errorf("a second one: %v", err)
	}
	age := func(by time.Duration) {
		l.mu.Lock()
		l.renewed = l.renewed.Add(-by)
		l.mu.Unlock()
		for name, c := range other.claims {
			c.since = c.since.Add(-by)
			other.claims[name] = c
		}
	}
	age(lost)
	if err := l.Held(); !errors.Is(err, errLost) {
		t.Errorf("after %s: %v", lost, err)
	}
	if _, err := other.Lock(t.Context(), "two", "test"); !errors.As(err, &locked) {
		t.Errorf("after %s another: %v", lost, err)
	}
	age(abandoned - lost)
	stolen, err := other.Lock(t.Context(), "two", "test")
	if err != nil {
		t.Fatalf("after %s another: %v", abandoned, err)
	}
	defer stolen.Release()
	if l.renewOnce(); !errors.Is(l.Held(), errLost) || stolen.Held() != nil {
		t.Errorf("the one that came back: %v, the other: %v", l.Held(), stolen.Held())
	}
}

// TestOneWriterAtATime: only one process has the lock, however many try at the same moment.
func TestOneWriterAtATime(t *testing.T) {
	b := newBucket(t, service(t), nil)
	var holders, times atomic.Int32
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c", "d"} {
		own := again(t, b)
		wg.Go(func() {
			for range 40 {
				l, err := own.Lock(t.Context(), owner, "race")
				var locked *store.LockedError
				if errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				times.Add(1)
				holders.Add(-1)
				l.Release()
			}
		})
	}
	wg.Wait()
	if times.Load() == 0 {
		t.Error("nobody ever had it")
	}
}

func TestNodesReadTheBucket(t *testing.T) {
	s := service(t)
	for _, way := range []string{Signed, Public} {
		t.Run(way, func(t *testing.T) {
			b := newBucket(t, s, func(c *Config) { c.Direct = way })
			id := fill(t, newCache(t, b, DefaultCache), 1, 50_000)[0]
			if way == Public {
				allowReading(t, b)
			}
			readAsNode(t, b, id)
		})
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string][2]string{
		"s3://b": {"b", ""}, "s3://b/": {"b", ""}, "s3://b/p/q": {"b", "p/q/"}, "s3://b/p/": {"b", "p/"},
	} {
		if b, p, err := (Config{URL: url}).Split(); err != nil || b != want[0] || p != want[1] {
			t.Errorf("%s: %q, %q, %v", url, b, p, err)
		}
	}
	for _, c := range []Config{{URL: "s3:///x"}, {URL: "http://b/x"}, {URL: "s3://b/../x"}, {URL: "s3://b/x//y"},
		{URL: "s3://b", Endpoint: "10.0.0.1:80"}, {URL: "s3://b", Endpoint: "http://h/path"},
		{URL: "s3://b", Direct: "yes"}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	_, err := Open(t.Context(), Config{URL: "s3://b", Endpoint: "https://10.0.0.1:1", Direct: Signed})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("plain HTTP")) {
		t.Errorf("nodes and https: %v", err)
	}
}
