package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
)

// busy is a site with builds, boots, tag moves and collections at the same time.
type busy struct {
	*site
	client *api.Client
	time   sync.RWMutex // locked for writing while the clock jumps, so that no action takes a day

	count atomic.Int64 // number of boots

	mu      sync.Mutex
	running map[byte]fleet.Digest // the version that each node booted last
	wrong   []string
}

func (b *busy) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// build does what `image build` does with the store and the server: it writes chunks, some of them shared with other
// versions, a manifest, and a name.
func (b *busy) build(ctx context.Context, contents []int) error {
	version, err := b.write(ctx, contents)
	if err == nil {
		_, err = b.client.AddVersion(ctx, "lab", api.VersionAdd{Version: version, Tags: []string{"latest"}})
	}
	return err
}

func (b *busy) write(ctx context.Context, contents []int) (fleet.Digest, error) {
	unlock, err := b.store.Lock(ctx, "build")
	if err != nil {
		return "", err
	}
	defer unlock()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		return "", err
	}
	w := b.store.NewWriter()
	defer w.Close()
	var entries []chunk.Entry
	var errs []error
	put := func(stored []byte) chunk.ID {
		id, _, err := w.Put(ctx, stored)
		errs = append(errs, err)
		return id
	}
	for _, c := range contents {
		raw := program(uint64(c), chunk.BlockSize)
		stored, codec := enc.Encode(raw)
		entries = append(
			entries,
			chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: put(stored)},
		)
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		return "", err
	}
	for _, page := range index.Pages {
		put(page)
	}
	kernel := []byte("kernel")
	m := image.Manifest{
		Format:       image.Format,
		Architecture: "amd64",
		Kernel:       image.Kernel{Release: "6.1.0", Object: put(kernel), Size: int64(len(kernel))},
		Root: image.Root{
			FileSystem: "erofs",
			Index:      put(index.Root),
			Size:       index.RawSize,
			ChunkSize:  chunk.DefaultChunkSize,
		},
	}
	data, err := m.Encode()
	if err = errors.Join(append(errs, err, w.Sync(ctx))...); err != nil {
		return "", err
	}
	return b.store.PutVersion(store.Version{Manifest: data, Signature: image.Sign(b.keys.Site, data)})
}

// boot boots the version of the tag latest, records that, and reads all of it.
func (b *busy) boot(ctx context.Context, number byte) error {
	mac := fleet.MAC{0x52, 0x54, 0, 0, 1, number}
	n := b.count.Add(1) // boots of a machine start at different times, so that there is a last one
	boot := registry.Boot{
		ID:      fleet.BootID(fmt.Sprintf("%016x", n)),
		MAC:     mac,
		Started: b.clock.now().Add(time.Duration(n) * time.Millisecond),
	}
	err := b.registry.View(ctx, func(tx *registry.Tx) (err error) {
		boot.Version, err = tx.Resolve("lab:latest")
		return err
	})
	if errors.Is(err, registry.ErrNotFound) {
		return nil // nothing was built yet
	}
	boot.TokenUsed = boot.Started
	if err == nil {
		err = b.registry.Update(ctx, func(tx *registry.Tx) error { return tx.CreateBoot(boot) })
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.running[number] = boot.Version
	b.mu.Unlock()
	b.read(ctx, boot.Version, fmt.Sprintf("node %d boots", number))
	return nil
}

// read reads all objects of a version.
func (b *busy) read(ctx context.Context, v fleet.Digest, why string) {
	var ids []chunk.ID
	err := b.store.Uses(ctx, v, func(u store.Use) { ids = append(ids, u.ID) })
	for _, id := range ids {
		_, e := b.store.Get(ctx, id)
		err = errors.Join(err, e)
	}
	if err != nil {
		b.fail("version %s, which %s: %v", v.Short(), why, err)
	}
}

// day advances the clock by a day while no action runs.
func (b *busy) day(ctx context.Context) error {
	b.time.Lock()
	defer b.time.Unlock()
	b.clock.add(11 * time.Minute)
	then := time.Now().Add(-48 * time.Hour)
	for _, dir := range []string{"objects", "manifests"} {
		err := filepath.WalkDir(filepath.Join(b.store.Path(), dir), func(path string, f os.DirEntry, err error) error {
			if err == nil && !f.IsDir() {
				err = os.Chtimes(path, then, then)
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// do carries out one action, chosen by number.
func (b *busy) do(ctx context.Context, person, what, n int) (err error) {
	if what == 4 {
		return b.day(ctx)
	}
	b.time.RLock()
	defer b.time.RUnlock()
	switch what {
	case 0:
		err = b.build(ctx, []int{n, n % 3, 10 + n%5})
	case 1:
		err = b.boot(ctx, byte(3*person+n%3))
	case 2:
		none := 0
		_, err = b.client.CollectStore(ctx, api.StoreCollect{Keep: &none})
	case 3:
		_, err = b.client.SetTag(ctx, "lab", fmt.Sprint("old", n%2), api.TagSet{Ref: "lab:latest"})
		if api.IsCode(err, api.NotFound) {
			err = nil // nothing was built yet
		}
	}
	return err
}

// whole checks that all used versions are complete, and that the store has no other damage.
func (b *busy) whole(ctx context.Context) {
	report, err := b.store.Check(ctx, []string{b.keys.SitePublic()}, nil)
	if err != nil || len(report.Problems) > 0 {
		b.fail("the store: %v, %v", report.Problems, err)
	}
	err = b.registry.View(ctx, func(tx *registry.Tx) error {
		tags, err := tx.Tags("")
		for _, tag := range tags {
			b.read(ctx, tag.Version, "is tagged "+tag.Tag)
		}
		return err
	})
	if err != nil {
		b.fail("%v", err)
	}
	for n, v := range b.running {
		b.read(ctx, v, fmt.Sprintf("node %d runs", n))
	}
}

// With any mix of builds, boots, tag moves and collections, and for any age of objects: used objects are never removed,
// and unused ones are in the end.
func TestCollectNeverRemovesWhatIsHeld(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set("15"); err != nil { // each check runs a server
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int {
			return [2]int{
				rapid.SampledFrom([]int{0, 0, 1, 1, 2, 2, 3, 4}).Draw(t, "what"),
				rapid.IntRange(0, 20).Draw(t, "n"),
			}
		}), 3, 8), 2, 5).Draw(rt, "people")
		t.Run("site", func(t *testing.T) {
			s := startSite(t)
			b := &busy{site: s, client: operatorOf(t, s), running: map[byte]fleet.Digest{}}
			var wg sync.WaitGroup
			for i, person := range script {
				wg.Go(func() {
					for _, step := range person {
						if err := b.do(t.Context(), i, step[0], step[1]); err != nil {
							b.fail("step %v: %v", step, err)
						}
					}
				})
			}
			wg.Wait()
			b.whole(t.Context())
			b.settle(t)
			for _, w := range b.wrong {
				t.Error(w)
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// settle advances the clock by two days and collects, after which nothing unused remains.
func (b *busy) settle(t *testing.T) {
	t.Helper()
	for range 2 {
		if err := b.day(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.do(t.Context(), 0, 2, 0); err != nil {
			t.Fatal(err)
		}
	}
	b.whole(t.Context())
	u, err := b.client.StoreUsage(t.Context())
	if err != nil || u.Unnamed > 0 ||
		slices.ContainsFunc(u.Images, func(i api.ImageUsage) bool { return i.Image == "" }) {
		t.Errorf("left: %+v, %v", u, err)
	}
}
