package rivals

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" // BitTorrent names by it
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pando/internal/bench"
)

// The tracker's port, and that of all clients.
const (
	trackerPort = 6969
	torrentPort = 6881
)

// torrentPiece is the size of a piece, in bytes: a whole image has some hundreds of pieces.
const torrentPiece = 256 << 10

// torrent is a .torrent file and its info hash.
type torrent struct {
	file []byte
	hash [sha1.Size]byte
}

// newTorrent makes the torrent of one file.
func newTorrent(name string, size int64, content io.Reader, announce string) (torrent, error) {
	var pieces bytes.Buffer
	in := bufio.NewReaderSize(content, torrentPiece)
	for {
		h := sha1.New()
		n, err := io.CopyN(h, in, torrentPiece)
		if n > 0 {
			pieces.Write(h.Sum(nil))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return torrent{}, err
		}
	}
	info := fmt.Sprintf(
		"d6:lengthi%de4:name%d:%s12:piece lengthi%de6:pieces%d:%se",
		size,
		len(name),
		name,
		torrentPiece,
		pieces.Len(),
		pieces.Bytes(),
	)
	return torrent{
		fmt.Appendf(nil, "d8:announce%d:%s4:info%se", len(announce), announce, info),
		sha1.Sum([]byte(info)),
	}, nil
}

// Escaped returns the hash for a tracker's URL. Trackers do not decode + as a space.
func (t torrent) Escaped() string {
	return strings.ReplaceAll(fmt.Sprintf(" % x", t.hash[:]), " ", "%")
}

// seedPatience bounds the time until the tracker knows the first seeder.
const seedPatience = time.Minute

// aria2 returns the options of all runs: peers come from the tracker and other nodes only, announcements are as
// frequent as the tracker allows, and seeding never ends.
func aria2(dir string, more ...string) []string {
	return append(
		[]string{
			"aria2c",
			"--no-conf",
			"--quiet",
			"--dir=" + dir,
			"--enable-dht=false",
			"--enable-dht6=false",
			"--bt-enable-lpd=false",
			"--enable-peer-exchange=true",
			"--bt-tracker-interval=5",
			"--listen-port=" + strconv.Itoa(torrentPort),
			"--seed-ratio=0.0",
			"--bt-max-peers=0",
			"--file-allocation=none",
			"--allow-overwrite=true",
			"--bt-remove-unselected-file=false",
			"--log-level=notice",
		},
		more...)
}

// serveTorrent starts a tracker and the first seeder on the server's host.
func serveTorrent(ctx context.Context, h bench.Host, m *bench.Image) (bench.Served, error) {
	file, err := m.Squashfs(ctx)
	if err != nil {
		return bench.Served{}, err
	}
	announce := "http://" + net.JoinHostPort(bench.Network.Addr().String(), strconv.Itoa(trackerPort))
	t, err := writeTorrent(file, announce+"/announce")
	if err != nil {
		return bench.Served{}, err
	}
	dir := filepath.Join(h.Dir, "tracker")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return bench.Served{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "allowed"), fmt.Appendf(nil, "%x\n", t.hash), 0o644); err != nil {
		return bench.Served{}, err
	}
	port := strconv.Itoa(trackerPort)
	tracker, err := h.Start(
		ctx,
		h.Net.Command(
			context.Background(),
			"opentracker",
			"-i",
			bench.Network.Addr().String(),
			"-p",
			port,
			"-P",
			port,
			"-d",
			dir,
			"-u",
			"nobody",
			"-w",
			"allowed",
		),
		"opentracker",
		trackerPort,
	)
	if err != nil {
		return bench.Served{}, err
	}
	argv := aria2(m.Scratch, "--bt-seed-unverified=true", torrentOf(file))
	soon, cancel := context.WithTimeoutCause(
		ctx,
		seedPatience,
		fmt.Errorf("the tracker does not know of the seeder after %s", seedPatience),
	)
	defer cancel()
	seeder, err := bench.StartProgram(
		soon,
		h.Net.Command(context.Background(), argv[0], argv[1:]...),
		filepath.Join(h.Dir, "seeder.log"),
		func() bool { return seeded(soon, h, announce, t) },
	)
	if err != nil {
		tracker.End()
		return bench.Served{}, err
	}
	return bench.Served{PID: seeder.Cmd.Process.Pid, End: func() { seeder.Stop(); tracker.End() }}, nil
}

// seeded reports whether the tracker knows a peer that has the whole file.
func seeded(ctx context.Context, h bench.Host, tracker string, t torrent) bool {
	client := &http.Client{Transport: &http.Transport{DialContext: h.Net.Dial, DisableKeepAlives: true}}
	b, err := bench.Get(ctx, client, tracker+"/scrape?info_hash="+t.Escaped(), 1<<20)
	return err == nil && strings.Contains(string(b), "8:completei1e")
}

// torrentOf returns the name of a file's .torrent.
func torrentOf(file string) string { return file + ".torrent" }

// writeTorrent writes the .torrent of a file beside the file.
func writeTorrent(file, announce string) (torrent, error) {
	f, err := os.Open(file)
	if err != nil {
		return torrent{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return torrent{}, err
	}
	t, err := newTorrent(filepath.Base(file), st.Size(), f, announce)
	if err != nil {
		return torrent{}, err
	}
	return t, os.WriteFile(torrentOf(file), t.file, 0o644)
}

// attachTorrent fetches the whole image from the server and the other nodes into memory, and continues to send it to
// others.
func attachTorrent(ctx context.Context, n bench.Client) (bench.Root, error) {
	file, err := n.Image.Squashfs(ctx) // it exists, because it is served
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/dev/shm", "pando-lab")
	if err != nil {
		return nil, err
	}
	r := &wholeRoot{dir: dir}
	complete, hook := filepath.Join(dir, "complete"), filepath.Join(dir, "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n: >"+complete+"\n"), 0o755); err != nil {
		r.Close()
		return nil, err
	}
	argv := aria2(dir, "--on-bt-download-complete="+hook, torrentOf(file))
	r.sender, err = bench.StartProgram(
		ctx,
		n.Net.Command(context.Background(), argv[0], argv[1:]...),
		filepath.Join(n.Dir, "aria2.log"),
		func() bool {
			_, err := os.Stat(complete)
			return err == nil
		},
	)
	if err == nil {
		err = r.open(ctx, n)
	}
	if err != nil {
		r.sender = nil // it was stopped
		r.Close()
		return nil, err
	}
	return r, nil
}

// wholeRoot is an image that the node has completely. It is read from this machine's own copy in memory, so the cost of
// unpacking is left out, in the rival's favour.
type wholeRoot struct {
	*os.File
	sender *bench.Program // sends the image to others
	dir    string         // removed when the root is closed
}

func (r *wholeRoot) open(ctx context.Context, n bench.Client) error {
	raw, err := n.Image.RawFile(ctx)
	if err == nil {
		r.File, err = os.Open(raw)
	}
	return err
}

func (r *wholeRoot) Usage(context.Context) (bench.Usage, error) { return bench.UsageOf(r.sender) }

// Close ends the sender and removes its files.
func (r *wholeRoot) Close() {
	if r.File != nil {
		_ = r.File.Close()
	}
	if r.sender != nil {
		r.sender.Stop()
	}
	_ = os.RemoveAll(r.dir) // a remaining directory is visible in /dev/shm
}
