package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bootID = "0123456789abcdef"
	source = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

var began = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// entry returns an entry as systemd-journal-upload sends it.
func entry(n int, unit, text string) string {
	at := began.Add(time.Duration(n) * time.Second).UnixMicro()
	return fmt.Sprintf(
		"__CURSOR=s=%s;i=%x;b=0;m=1;t=1;x=1\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n"+
			"PRIORITY=6\n_SYSTEMD_UNIT=%s\nSYSLOG_IDENTIFIER=%s\n_PID=%d\n_HOSTNAME=pc001\nMESSAGE=%s\n\n",
		source,
		n,
		at,
		n*1000000,
		unit,
		strings.TrimSuffix(unit, ".service"),
		100+n,
		text,
	)
}

func stream(from, to int, unit string) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(entry(i, unit, fmt.Sprintf("line %d", i)))
	}
	return b.String()
}

// binaryField returns a field that may contain line breaks.
func binaryField(name string, value []byte) string {
	return name + "\n" + string(binary.LittleEndian.AppendUint64(nil, uint64(len(value)))) + string(value) + "\n"
}

func open(t *testing.T, change ...func(*Options)) *Dir {
	t.Helper()
	if _, err := Find(); err != nil {
		t.Skip(err)
	}
	o := Options{Path: filepath.Join(t.TempDir(), "logs"), Free: 1, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, c := range change {
		c(&o)
	}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Dir) texts(t *testing.T, q Query) []string {
	t.Helper()
	lines, err := d.Lines(t.Context(), "pc001", bootID, q)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// TestTake: entries are found by unit, text, time and number. Entries that are sent twice are kept once, also if the
// directory was opened again in between.
func TestTake(t *testing.T) {
	d := open(t)
	take := func(s string) {
		t.Helper()
		if err := d.Take(t.Context(), "pc001", bootID, strings.NewReader(s)); err != nil {
			t.Fatal(err)
		}
	}
	multi := strings.Replace(
		entry(7, "cron.service", "X"),
		"MESSAGE=X\n",
		binaryField("MESSAGE", []byte("one\ntwo")),
		1,
	)
	take(stream(1, 3, "ssh.service") + stream(4, 6, "cron.service"))
	take(stream(5, 6, "cron.service") + multi)
	if got := d.texts(t, Query{}); !slices.Equal(
		got,
		[]string{"line 1", "line 2", "line 3", "line 4", "line 5", "line 6", "one\ntwo"},
	) {
		t.Errorf("%q", got)
	}
	again, err := Open(d.Options)
	if err != nil {
		t.Fatal(err)
	}
	d = again
	take(stream(1, 6, "ssh.service") + multi + stream(8, 8, "ssh.service"))
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{Unit: "ssh"}, []string{"line 1", "line 2", "line 3", "line 8"}},
		{Query{Unit: "cron.service", Last: 1}, []string{"one\ntwo"}},
		{Query{Grep: "LINE [78]"}, []string{}},
		{Query{Grep: "ine [78]"}, []string{"line 8"}},
		{Query{Since: began.Add(2 * time.Second), Until: began.Add(3 * time.Second)}, []string{"line 2", "line 3"}},
		{Query{Priority: "err"}, []string{}},
		{Query{Unit: "nothing"}, []string{}},
	} {
		if got := d.texts(t, c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	lines, err := d.Lines(t.Context(), "pc001", bootID, Query{Last: 1})
	want := Line{
		Time:     began.Add(8 * time.Second),
		Unit:     "ssh.service",
		Name:     "ssh",
		PID:      108,
		Priority: 6,
		Text:     "line 8",
	}
	if err != nil || len(lines) != 1 || lines[0] != want {
		t.Errorf("%+v, %v; want %+v", lines, err, want)
	}
	if units, err := d.Units(t.Context(), "pc001", bootID); err != nil ||
		!slices.Equal(units, []string{"cron.service", "ssh.service"}) {
		t.Errorf("units %q, %v", units, err)
	}
	var wrong *QueryError
	if _, err := d.Lines(t.Context(), "pc001", bootID, Query{Grep: "("}); !errors.As(err, &wrong) {
		t.Errorf("a pattern that is none: %v", err)
	}
	if _, err := d.Lines(t.Context(), "pc001", "ffffffffffffffff", Query{}); !errors.Is(err, ErrNone) {
		t.Errorf("of another boot: %v", err)
	}
	if b := d.Boots("pc001"); len(b) != 1 || b[0].Boot != bootID || b[0].Bytes <= 0 || b[0].Bytes > 4<<20 {
		t.Errorf("%+v: the room that systemd reserves is given back", b)
	}
}

// TestTakeBadStreams: complete entries before the damage are kept once, and the damage is reported.
func TestTakeBadStreams(t *testing.T) {
	var format *FormatError
	for name, c := range map[string]struct {
		stream string
		want   []string
		err    func(error) bool
	}{
		"torn in a field": {stream(1, 2, "a.service") + entry(3, "a.service", "x")[:150],
			[]string{"line 1", "line 2"}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"torn after a field": {stream(1, 2, "a.service") + "MESSAGE=x\n", []string{"line 1", "line 2"},
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"torn in a binary one": {stream(1, 2, "a.service") + "MESSAGE\n\x40\x00", []string{"line 1", "line 2"},
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"no such format": {stream(1, 1, "a.service") + "MESSAGE\nxxxxxxxxxxxxxxxxxx\n", []string{"line 1"},
			func(err error) bool { return errors.As(err, &format) }},
		"a field without end": {stream(1, 1, "a.service") + "MESSAGE\n\x01\x00\x00\x00\x00\x00\x00\x00ab\n",
			[]string{"line 1"}, func(err error) bool { return errors.As(err, &format) }},
		"oversize text": {strings.Replace(entry(1, "a.service", "1"), "\n\n",
			"\nDUMP="+strings.Repeat("x", 3*maxField)+"\n\n", 1) + stream(2, 2, "a.service"), []string{"1", "line 2"},
			isNil},
		"oversize binary": {strings.Replace(entry(1, "a.service", "1"), "\n\n",
			"\n"+binaryField("COREDUMP", make([]byte, 2<<20))+"\n", 1) + stream(2, 2, "a.service"),
			[]string{"1", "line 2"}, isNil},
		"too many fields": {strings.Replace(entry(1, "a.service", "1"), "\n\n",
			"\n"+strings.Repeat("A=b\n", 100_000)+"\n", 1) + stream(2, 2, "a.service"), []string{"1", "line 2"}, isNil},
		"no time": {"MESSAGE=timeless\n\n" + stream(1, 1, "a.service"), []string{"line 1"}, isNil},
		"nothing but a time": {"__REALTIME_TIMESTAMP=1763726400000000\n__MONOTONIC_TIMESTAMP=1\n\n" + stream(1, 1,
			"a.service"), []string{"line 1"}, isNil},
		"a time that is none": {strings.Replace(entry(1, "a.service", "1"), "__REALTIME_TIMESTAMP=",
			"__REALTIME_TIMESTAMP=x", 1) + stream(2, 2, "a.service"), []string{"line 2"}, isNil},
		"a boot that is none": {strings.Replace(entry(1, "a.service", "1"), "_BOOT_ID=0123", "_BOOT_ID=zzzz",
			1) + stream(2, 2, "a.service"), []string{"line 2"}, isNil},
		"names that are none": {strings.Replace(entry(1, "a.service", "1"), "\n\n",
			"\nsmall=x\n1A=b\n\xff=c\n=\n__OTHER=1\n\n", 1), []string{"1"}, isNil},
		"nothing":     {"", nil, isNil},
		"empty lines": {"\n\n\n", nil, isNil},
		"a secret in the name": {strings.Replace(entry(1, "a.service", "1"), "_SYSTEMD_UNIT=a.service",
			"_SYSTEMD_UNIT=../../etc/passwd", 1), []string{"1"}, isNil},
		"not UTF-8 in the text": {strings.Replace(entry(1, "a.service", "X"), "MESSAGE=X\n",
			binaryField("MESSAGE", []byte("a\xff\x00b")), 1), []string{"a\uFFFD\x00b"}, isNil},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			for range 2 {
				if err := d.Take(t.Context(), "pc001", bootID, strings.NewReader(c.stream)); !c.err(err) {
					t.Errorf("%v", err)
				}
			}
			if c.want == nil {
				if _, err := d.Lines(t.Context(), "pc001", bootID, Query{}); !errors.Is(err, ErrNone) {
					t.Errorf("%v", err)
				}
				return
			}
			if got := d.texts(t, Query{}); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func isNil(err error) bool { return err == nil }

// TestOneUploadAtATime: only one upload of a boot runs at a time; other boots are not affected.
func TestOneUploadAtATime(t *testing.T) {
	d := open(t)
	r, w := io.Pipe()
	ended := make(chan error)
	go func() { ended <- d.Take(context.Background(), "pc001", bootID, r) }()
	if _, err := io.WriteString(w, stream(1, 1, "a.service")); err != nil {
		t.Fatal(err)
	}
	if err := d.Take(t.Context(), "pc001", bootID, strings.NewReader("")); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if err := d.Take(t.Context(), "pc002", bootID, strings.NewReader(stream(1, 1, "a.service"))); err != nil {
		t.Error(err)
	}
	w.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFollow: lines arrive while they are written, also into a new file, and Follow waits for the first line of a boot.
func TestFollow(t *testing.T) {
	d := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines := make(chan string, 10)
	ended := make(chan error)
	go func() {
		ended <- d.Follow(ctx, "pc001", bootID, Query{Unit: "ssh"}, func(l Line) error { lines <- l.Text; return nil })
	}()
	for i := 1; i <= 3; i++ {
		if i == 3 { // into a new file
			old := filepath.Join(d.dir("pc001", bootID), "000001.journal")
			if err := os.Rename(old, filepath.Join(filepath.Dir(old), "000001@old.journal")); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Take(ctx, "pc001", bootID,
			strings.NewReader(entry(2*i, "ssh.service", fmt.Sprint(i))+entry(2*i+1, "cron.service",
				"no"))); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-lines:
			if got != fmt.Sprint(i) {
				t.Errorf("%q, want %d", got, i)
			}
		case <-ctx.Done():
			t.Fatalf("line %d did not come", i)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRoom: a node that writes much loses its own oldest boots and older parts of its newest, and displaces no other
// node's.
func TestRoom(t *testing.T) {
	d := open(t, func(o *Options) { o.Node = 20 << 20 })
	quiet := stream(1, 5, "a.service")
	if err := d.Take(t.Context(), "pc002", bootID, strings.NewReader(quiet)); err != nil {
		t.Fatal(err)
	}
	noise := func(boot string, megabytes int) {
		t.Helper()
		var b bytes.Buffer
		junk := make([]byte, 3<<15)
		for i := range megabytes * 10 {
			for j := range junk { // data that cannot be compressed
				junk[j] = byte('a' + (i*7919+j*j*31+j>>3)%26)
			}
			copy(junk, fmt.Sprint(boot, i))
			b.WriteString(
				strings.Replace(
					entry(i+1, "a.service", "n"),
					"\n\n",
					"\nJUNK="+string(random(len(junk), uint64(i)+1))+"\n\n",
					1,
				),
			)
		}
		if err := d.Take(t.Context(), "pc001", boot, &b); err != nil {
			t.Fatal(err)
		}
		if n := d.usage("pc001"); n > d.Node+2*pieceBytes {
			t.Errorf("node has %d bytes, at most %d", n, d.Node)
		}
	}
	for i := range 4 {
		noise(fmt.Sprintf("%016x", i), 8)
	}
	boots := d.Boots("pc001")
	if len(boots) == 4 || len(boots) == 0 || boots[0].Boot != fmt.Sprintf("%016x", 3) {
		t.Errorf("%+v", boots)
	}
	noise("00000000000000aa", 60)
	if boots := d.Boots("pc001"); len(boots) != 1 {
		t.Errorf("one boot has all the room: %+v", boots)
	}
	if lines, err := d.Lines(t.Context(), "pc001", "00000000000000aa", Query{Last: 1}); err != nil || len(lines) != 1 ||
		lines[0].PID != 700 {
		t.Errorf("the newest line: %+v, %v", lines, err)
	}
	if lines, err := d.Lines(t.Context(), "pc002", bootID, Query{}); err != nil || len(lines) != 5 {
		t.Errorf("the other node's: %d, %v", len(lines), err)
	}
	d.Total = 10 << 20
	if err := d.Take(t.Context(), "pc002", bootID, strings.NewReader(stream(6, 6, "a.service"))); err != nil {
		t.Fatal(err)
	}
	if got := d.usage("pc002"); got == 0 {
		t.Error("the quiet node lost its journal to the noisy one")
	}
}

// random returns letters that cannot be compressed.
func random(n int, seed uint64) []byte {
	out := make([]byte, n)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = 33 + byte(seed>>57)%90
	}
	return out
}

// TestFullDisk: an upload to a full disk fails, and succeeds when there is space again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skip("mount a small file system: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	d := open(t, func(o *Options) { o.Path, o.Free = filepath.Join(dir, "logs"), 4<<20 })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 21<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Take(t.Context(), "pc001", bootID, strings.NewReader(stream(1, 3, "a.service"))); !errors.Is(
		err,
		ErrFull,
	) {
		t.Fatalf("%v", err)
	}
	if got := d.Tally(); !got.Full || got.Entries != 0 || !got.Last.IsZero() {
		t.Errorf("%+v", got)
	}
	if err := os.Truncate(ballast, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Take(t.Context(), "pc001", bootID, strings.NewReader(stream(1, 3, "a.service"))); err != nil {
		t.Fatal(err)
	}
	if got := d.texts(t, Query{}); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := d.Tally(); got.Full || got.Entries != 3 || got.Bytes < 100 || got.Held != d.Usage() ||
		got.Bound != DefaultTotal ||
		time.Since(got.Last) > time.Minute {
		t.Errorf("%+v", got)
	}
	again := open(t, func(o *Options) { o.Path, o.Free = d.Path, 4<<20 })
	if got := again.Tally(); got.Entries != 0 || time.Since(got.Last) > time.Minute || got.Held != d.Usage() {
		t.Errorf("after another start: %+v", got)
	}
}

// TestNotWritten: it is an error if systemd-journal-remote writes fewer entries than it was given.
func TestNotWritten(t *testing.T) {
	failed := exec.CommandContext(t.Context(), "false").Run()
	for _, c := range []struct {
		out  string
		err  error
		good bool
	}{
		{"Finishing after writing 3 entries", nil, true},
		{"x: Journal header limits reached, rotating\nFinishing after writing 3 entries", nil, true},
		{"Finishing after writing 2 entries", nil, false},
		{"", nil, true}, // a release with another output
		{"Failed to open output journal", failed, false},
	} {
		if err := checkWritten([]byte(c.out), c.err, 3); (err == nil) != c.good {
			t.Errorf("%q, %v: %v", c.out, c.err, err)
		}
	}
}

// FuzzEntries: for any input, passed-on entries are well-formed and limited in size, and reading them again gives the
// same.
func FuzzEntries(f *testing.F) {
	for _, s := range []string{stream(1, 2, "a.service"), binaryField("MESSAGE", []byte("x\ny")), "A\n", "=\n\n",
		"MESSAGE=x", "\n"} {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Replace(entry(1, "a", "X"), "MESSAGE=X\n", binaryField("MESSAGE", []byte("one\ntwo")), 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := newEntries(bytes.NewReader(b))
		for range len(b) + 1 {
			got, _, err := in.next()
			if err != nil {
				return
			}
			if len(got) > maxEntry+1 {
				t.Fatalf("%d bytes", len(got))
			}
			once := bytes.Clone(got)
			twice, _, err := newEntries(bytes.NewReader(once)).next()
			if err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("%q became %q, %v", once, twice, err)
			}
		}
		t.Fatal("more entries than bytes")
	})
}

// FuzzLine: every input gives a line or an error.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"__REALTIME_TIMESTAMP":"1700000001505000","MESSAGE":"line","_PID":"7"}`,
		`{"__REALTIME_TIMESTAMP":"1","MESSAGE":[97,255],"UNIT":["a","b"]}`,
		`{"__REALTIME_TIMESTAMP":"1","MESSAGE":null}`, `{}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLine(b)
		if err == nil && (len(l.Text) > maxText+4 || l.Priority < 0 || l.Priority > 7) {
			t.Fatalf("%+v", l)
		}
	})
}
