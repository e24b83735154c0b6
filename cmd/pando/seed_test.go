package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/testkit/clikit"
)

// seed fills a data directory before its server starts: an image lab with the tags latest and old, the nodes pc001
// (booted), pc002 (failed) and pc003 (never seen), and a discovered machine.
func seed(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(seedData(ts.Getenv("DATA")))
}

func seedData(data string) error {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	old, latest, err := seedImages(data)
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, err := registry.Open(ctx, registry.Options{Dir: data})
	if err != nil {
		return err
	}
	defer r.Close()
	now := time.Now()
	mac := func(n byte) fleet.MAC { return fleet.MAC{0x52, 0x54, 0, 0, 0, n} }
	boots := []registry.Boot{
		{
			ID:      "00000000000000a1",
			MAC:     mac(1),
			Node:    "pc001",
			Started: now.Add(-time.Hour),
			Version: old,
			Image:   "lab:old",
			Hardware: json.RawMessage(
				`{"vendor":"QEMU","cpus":2,"pci":["1af4:1000:0200","1b36:0100:0300"],"missing":["pci:v000010ECd00008168"]}`,
			),
		},
		{
			ID:      "00000000000000a2",
			MAC:     mac(2),
			Node:    "pc002",
			Started: now.Add(-time.Minute),
			Version: latest,
			Image:   "lab",
		},
	}
	err = r.Update(ctx, func(tx *registry.Tx) error {
		var errs []error
		for i, d := range []fleet.Digest{old, latest} {
			errs = append(
				errs,
				tx.AddVersion(
					registry.ImageVersion{Image: "lab", Version: d, Added: now.Add(time.Duration(i) * time.Second)},
				),
			)
		}
		for tag, d := range map[string]fleet.Digest{"old": old, "latest": latest} {
			_, err := tx.PutTag(fleet.Tag{Image: "lab", Tag: tag, Version: d})
			errs = append(errs, err)
		}
		errs = append(errs, tx.PutGroup(fleet.Group{Name: fleet.DefaultGroup, Image: "lab", Follow: true}))
		for i, name := range []string{"pc001", "pc002", "pc003"} {
			errs = append(
				errs,
				tx.CreateNode(fleet.Node{Name: name, MACs: []fleet.MAC{mac(byte(i + 1))}, State: fleet.Adopted,
					Group: fleet.DefaultGroup, Created: now}),
			)
		}
		errs = append(
			errs,
			tx.CreateNode(fleet.Node{Name: "mac-525400000009", MACs: []fleet.MAC{mac(9)}, State: fleet.Discovered,
				Group: fleet.DefaultGroup, Created: now, Seen: now}),
		)
		for _, b := range boots {
			errs = append(errs, tx.CreateBoot(b))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	_, err = r.Append(ctx, append(clikit.Events(boots[0], false), clikit.Events(boots[1], true)...)...)
	status, e := json.Marshal(api.NodeStatus{Version: old, Reads: 1526, WriteLayer: "tmpfs", Systemd: clikit.Systemd()})
	return errors.Join(err, e, r.PutStatus(ctx, "00000000000000a1", status, now))
}

// seedImages puts two signed versions into the store.
func seedImages(data string) (old, latest fleet.Digest, err error) {
	keys, err := identity.Open(filepath.Join(data, "keys"))
	if err != nil {
		return "", "", err
	}
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return "", "", err
	}
	ctx := context.Background()
	unlock, err := dir.Lock(ctx, "test")
	if err != nil {
		return "", "", err
	}
	defer unlock()
	w := dir.NewWriter()
	defer w.Close()
	var digests []fleet.Digest
	for _, release := range []string{"6.1.0-48", "6.1.0-49"} {
		kernel, _, err := w.Put(ctx, []byte(strings.Repeat(release, 1000)))
		if err != nil {
			return "", "", err
		}
		m := image.Manifest{
			Format:       image.Format,
			Architecture: "amd64",
			Kernel:       image.Kernel{Release: release, Object: kernel, Size: 8000},
			Drivers:      []image.Driver{{Name: "base", Object: kernel, Size: 8000}},
			CommandLine:  []string{"quiet"},
			Root: image.Root{
				FileSystem: "erofs",
				Index:      kernel,
				Size:       720_000_000 / 4096 * 4096,
				ChunkSize:  chunk.DefaultChunkSize,
			},
			Sizes: image.Sizes{Stored: 250_000_000, Files: 14000},
		}
		raw, err := m.Encode()
		if err != nil {
			return "", "", err
		}
		if err := w.Sync(ctx); err != nil {
			return "", "", err
		}
		d, err := dir.PutVersion(store.Version{Manifest: raw, Signature: image.Sign(keys.Site, raw)})
		if err != nil {
			return "", "", err
		}
		digests = append(digests, d)
	}
	return digests[0], digests[1], nil
}

// packed gives both versions of seed boot packs: one for a hardware class and then one for all. A boot of lab:old needs
// 11.3 MB in 130 pieces until booted, a boot of lab 12.6 MB in 145.
func packed(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := store.OpenDir(filepath.Join(ts.Getenv("DATA"), "store"))
	ts.Check(err)
	unlock, err := dir.Lock(context.Background(), "test")
	ts.Check(err)
	defer unlock()
	all, err := dir.Versions()
	ts.Check(err)
	for _, v := range all {
		m, err := dir.ManifestBytes(v)
		ts.Check(err)
		set, pieces := int64(11_300_000), 130
		if strings.Contains(string(m), "6.1.0-49") {
			set, pieces = 12_600_000, 145
		}
		for i, class := range []string{"lap-2", ""} {
			ts.Check(
				dir.PutPack(
					v,
					bootpack.Record{
						Class:      class,
						Sequence:   1,
						Object:     chunk.Sum([]byte(class + string(v))),
						Size:       4000,
						Made:       time.Now(),
						Pieces:     200,
						Raw:        60_000_000,
						Stored:     20_000_000,
						BootSet:    int64(i) * set,
						BootPieces: i * pieces,
					},
				),
			)
		}
	}
}
