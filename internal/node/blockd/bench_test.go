package blockd

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// Size of the replayed boot: 62 MB in about 1,500 requests, as a Debian server reads of an image of programs.
const (
	benchImage = 160 << 20
	benchReads = 62_000_000
)

// BenchmarkBootPack replays one boot against a block daemon, alternately with chunks only and with a boot pack. It
// prints the bytes received, the memory and processor time of the daemons, and the ratios.
func BenchmarkBootPack(b *testing.B) {
	if unix.Geteuid() != 0 {
		b.Skip("locking memory without a limit needs root")
	}
	o, reads := filesOrigin(b)
	pack := o.packOf(b, reads)
	n := 0.0
	sum := map[string]float64{}
	for b.Loop() {
		n++
		for name, m := range map[string][]byte{"chunks": nil, "pack": pack} {
			o.pack = m
			r := o.replay(b, reads)
			sum[name+"-wire"] += r.wire
			sum[name+"-cpu-s"] += r.cpu
			sum[name+"-MB-memory"] = max(sum[name+"-MB-memory"], r.memory)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, name := range []string{"chunks", "pack"} {
		b.ReportMetric(sum[name+"-wire"]/n, name+"-wire/read")
		b.ReportMetric(sum[name+"-cpu-s"]/n, name+"-cpu-s")
		b.ReportMetric(sum[name+"-MB-memory"], name+"-MB-memory")
	}
	b.ReportMetric(sum["pack-cpu-s"]/sum["chunks-cpu-s"], "cpu-ratio")
	b.ReportMetric(sum["pack-wire"]/sum["chunks-wire"], "wire-ratio")
}

// benchRead is the extent of a read, in blocks.
type benchRead struct{ start, blocks int }

// filesOrigin serves an image of this machine's programs and libraries, and returns what a boot reads of it: some
// files whole, some in part, in requests of up to 128 KiB.
func filesOrigin(b *testing.B) (*testOrigin, []benchRead) {
	b.Helper()
	o := &testOrigin{objects: map[string][]byte{}}
	var files []chunk.Extent
	err := filepath.WalkDir("/usr", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || len(o.raw) >= benchImage {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 || len(data) > 8<<20 {
			return err
		}
		files = append(files, chunk.Extent{Start: int64(len(o.raw)), Size: int64(len(data)), Name: path})
		o.raw = append(o.raw, data...)
		o.raw = append(o.raw, make([]byte, -len(data)&(chunk.BlockSize-1))...)
		return nil
	})
	if err != nil || len(o.raw) < benchImage {
		b.Skipf("%d bytes of programs below /usr are too few, or cannot be read (%v)", len(o.raw), err)
	}
	o.cut(b, files)
	s := httptest.NewServer(o)
	b.Cleanup(s.Close)
	o.url = s.URL
	return o, drawReads(files)
}

// cut makes chunks and index of an image, as the builder does.
func (o *testOrigin) cut(b *testing.B, files []chunk.Extent) {
	b.Helper()
	enc, err := chunk.NewEncoder(0)
	if err != nil {
		b.Fatal(err)
	}
	sizes, err := chunk.Split(int64(len(o.raw)), files, chunk.DefaultChunkSize)
	if err != nil {
		b.Fatal(err)
	}
	var entries []chunk.Entry
	off := 0
	for _, n := range sizes {
		stored, codec := enc.Encode(o.raw[off:][:n])
		e := chunk.Entry{RawSize: n, StoredSize: len(stored), Codec: codec}
		if codec != chunk.Zero {
			e.ID = o.put(stored)
		}
		entries = append(entries, e)
		off += n
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		b.Fatal(err)
	}
	for _, page := range index.Pages {
		o.put(page)
	}
	o.index = o.put(index.Root)
}

// drawReads chooses what a boot reads. Each block is read once, because the kernel's page cache has it afterwards.
func drawReads(files []chunk.Extent) []benchRead {
	r := rand.New(rand.NewPCG(1, 2))
	var reads []benchRead
	total := 0
	for _, i := range r.Perm(len(files)) {
		first := int(files[i].Start / chunk.BlockSize)
		for at, end := 0, int(files[i].Size+chunk.BlockSize-1)/chunk.BlockSize; at < end; {
			n := min(32, end-at, 1+r.IntN(32))
			if end <= 4 || r.IntN(4) > 0 {
				reads = append(reads, benchRead{first + at, n})
				total += n * chunk.BlockSize
			}
			at += n
		}
		if total >= benchReads {
			break
		}
	}
	return reads
}

// packOf makes the boot pack of some reads: pieces of 256 KiB at Go's best compression level.
func (o *testOrigin) packOf(b *testing.B, reads []benchRead) []byte {
	b.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithSingleSegment(true))
	if err != nil {
		b.Fatal(err)
	}
	p := bootpack.Map{Version: image.Version([]byte("x")), Sequence: 1}
	var raw []byte
	add := func() {
		stored := enc.EncodeAll(raw, nil)
		p.Pieces = append(
			p.Pieces,
			chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: chunk.Zstd, ID: o.put(stored)},
		)
		raw = nil
	}
	for _, x := range reads {
		if last := len(p.Extents) - 1; last >= 0 && p.Extents[last].End() == uint64(x.start) {
			p.Extents[last].Blocks += uint32(x.blocks)
		} else {
			p.Extents = append(p.Extents, bootpack.Extent{Start: uint32(x.start), Blocks: uint32(x.blocks)})
		}
		if raw = append(raw, o.raw[x.start*chunk.BlockSize:][:x.blocks*chunk.BlockSize]...); len(raw) >= 256<<10 {
			add()
		}
	}
	if len(raw) > 0 {
		add()
	}
	p.Booted = len(p.Pieces)
	data, err := p.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// taken is the cost of one boot.
type taken struct{ wire, cpu, memory float64 } // bytes received per byte read, seconds, MB

// replay reads a boot's blocks through a new daemon.
func (o *testOrigin) replay(b *testing.B, reads []benchRead) taken {
	b.Helper()
	k, c, ready, stop := supervise(b, o, blockapi.Config{ChunkSize: chunk.DefaultChunkSize})
	defer stop()
	if ready != "ready" {
		b.Fatal(ready)
	}
	for _, x := range reads {
		got, err := k.read(int64(x.start)*chunk.BlockSize, x.blocks*chunk.BlockSize)
		if err != nil || string(got) != string(o.raw[x.start*chunk.BlockSize:][:len(got)]) {
			b.Fatalf("read at block %d: wrong bytes or %v", x.start, err)
		}
	}
	st, err := c.Status(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	return taken{
		float64(st.Bytes["server"]) / float64(st.ReadBytes),
		processorTime(b, st.PID).Seconds(),
		peakMemory(b, st.PID) / 1e6,
	}
}

// peakMemory returns the peak of a process's resident memory in bytes. The daemon's own figure includes its parent's
// memory from before exec.
func peakMemory(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(text, &kib); err != nil {
		b.Fatal(err)
	}
	return kib * 1024
}

// processorTime returns the processor time of a process so far, with a resolution of 10 ms.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
