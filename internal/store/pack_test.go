package store

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

// putPack gives a version a boot pack of one piece.
func putPack(
	t *testing.T,
	d *Dir,
	key minisign.PrivateKey,
	v fleet.Digest,
	class string,
) (bootpack.Record, bootpack.Map) {
	t.Helper()
	raw := bytes.Repeat([]byte(class+"!"), 1<<20)[:chunk.BlockSize]
	p := bootpack.Map{
		Version: v, Class: class, Sequence: 1, Booted: 1, Extents: []bootpack.Extent{{Start: 0, Blocks: 1}},
		Pieces: []chunk.Entry{{RawSize: len(raw), StoredSize: len(raw), Codec: chunk.Stored, ID: putObject(t, d, raw)}},
	}
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r := bootpack.Record{
		Class:     class,
		Sequence:  1,
		Object:    putObject(t, d, data),
		Size:      int64(len(data)),
		Signature: string(bootpack.Sign(key, data)),
	}
	if err := d.PutPack(v, r); err != nil {
		t.Fatal(err)
	}
	return r, p
}

func TestPacks(t *testing.T) {
	d := newDir(t)
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := putVersion(t, d, key)
	if got, err := d.Packs(v.Digest); err != nil || got != nil {
		t.Errorf("a version without packs has %v, %v", got, err)
	}
	all, _ := putPack(t, d, key, v.Digest, "")
	laptop, _ := putPack(t, d, key, v.Digest, "laptop")
	all.Sequence = 2
	if err := d.PutPack(v.Digest, all); err != nil {
		t.Fatal(err)
	}
	got, err := d.Packs(v.Digest)
	if want := []bootpack.Record{laptop, all}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("packs %+v, %v; want %+v", got, err, want)
	}
	for class, want := range map[string]bootpack.Record{"": all, "laptop": laptop, "server": all} {
		if r, ok := bootpack.Find(got, class); !ok || r != want {
			t.Errorf("class %q gets %+v, %v", class, r, ok)
		}
	}
	if versions, err := d.Versions(); err != nil || len(versions) != 1 {
		t.Errorf("versions %v, %v", versions, err)
	}
	if err := os.WriteFile(d.sidecar(v.Digest, packsSuffix), []byte(`{"format": 2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Packs(v.Digest); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("another format: error %v", err)
	}
}

func TestCheckPacks(t *testing.T) {
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		harm func(t *testing.T, d *Dir, v fleet.Digest, r bootpack.Record, p bootpack.Map)
		want string // in a problem; "": none
	}{
		"whole": {func(*testing.T, *Dir, fleet.Digest, bootpack.Record, bootpack.Map) {}, ""},
		"no map": {func(_ *testing.T, d *Dir, _ fleet.Digest, r bootpack.Record, _ bootpack.Map) {
			os.Remove(d.ObjectPath(r.Object))
		}, "map of a boot pack"},
		"no piece": {func(_ *testing.T, d *Dir, _ fleet.Digest, _ bootpack.Record, p bootpack.Map) {
			os.Remove(d.ObjectPath(p.Pieces[0].ID))
		}, "piece 0"},
		"other key": {func(t *testing.T, d *Dir, v fleet.Digest, _ bootpack.Record, _ bootpack.Map) {
			putPack(t, d, other, v, "")
		}, "wrong signature"},
		"no records": {func(t *testing.T, d *Dir, v fleet.Digest, _ bootpack.Record, _ bootpack.Map) {
			if err := os.WriteFile(d.sidecar(v, packsSuffix), []byte("{"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "boot pack records"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			v, _ := putVersion(t, d, key)
			r, p := putPack(t, d, key, v.Digest, "")
			c.harm(t, d, v.Digest, r, p)
			report, err := d.Check(t.Context(), []string{pub.String()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Versions != 1 {
				t.Error("a version with a broken pack does not count as whole")
			}
			if c.want == "" && (len(report.Problems) > 0 || report.Unused != 0) {
				t.Errorf("whole: %+v", report)
			}
			if c.want != "" && (len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), c.want)) {
				t.Errorf("problems %v, want one with %q", report.Problems, c.want)
			}
		})
	}
}
