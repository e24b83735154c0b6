package fault

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/piecestore"
	"pando/internal/store"
	"pando/internal/swarm"
	"pando/internal/swarm/peer"
	"pando/internal/testkit"
)

// badPeer is a peer that spoils the objects that it sends. It reads them from the server's data directory.
type badPeer struct {
	data   string // the server's data directory
	pack   chunk.ID
	server string
	as     string
	rate   testkit.Rate
	file   string // file for its notes; "": no notes
	note   bench.BadNote
}

// BadPeer is the command `pando-lab bad-peer`. `pando-lab storm --fault` starts it on links that no node uses.
func BadPeer(args []string, stderr io.Writer) (func(context.Context) error, error) {
	b := &badPeer{}
	f := flag.NewFlagSet("pando-lab bad-peer", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&b.data, "data", "", "data directory of the server")
	f.Func("pack", "object of the boot pack", func(text string) (err error) {
		b.pack, err = chunk.ParseID(text)
		return err
	})
	f.StringVar(&b.server, "server", "", "URL of the image port")
	f.StringVar(&b.as, "as", "", "corrupt, short, endless or slow")
	f.Func("rate", "link of a node", bench.RateOf(&b.rate))
	f.StringVar(&b.file, "note", "", "file that says in the end whose answers it spoiled")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return b.run, nil
}

func (b *badPeer) run(ctx context.Context) error {
	dir, err := store.OpenDir(filepath.Join(b.data, "store"))
	if err != nil {
		return err
	}
	data, err := dir.Get(ctx, b.pack)
	if err != nil {
		return err
	}
	m, err := bootpack.Decode(data)
	if err != nil {
		return err
	}
	o := peer.NodeOptions{
		Pack:     b.pack,
		Origin:   bench.DiskSource{Dir: dir},
		Trackers: []string{b.server},
		Port:     swarm.Port,
		Prefix:   bench.Network.Bits(),
		Log:      slog.New(slog.DiscardHandler),
	}
	for _, e := range m.Pieces {
		o.Pieces = append(o.Pieces, peer.Piece{ID: e.ID, Size: int64(e.StoredSize)})
	}
	s := piecestore.New(piecestore.Options{Map: m, Keep: m.StoredSize()})
	s.BootOver() // so that it fetches the whole pack
	o.Store = s
	n := peer.NewNode(o)
	s.Follow(n.Moved)
	srv := &http.Server{
		Addr:              ":" + strconv.Itoa(swarm.Port),
		Handler:           b.spoil(n.Handler()),
		ReadHeaderTimeout: time.Minute,
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go n.Run(ctx)
	if err := srv.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	if b.file == "" {
		return nil
	}
	return b.note.Save(b.file)
}

// spoil changes the objects that good sends. Announcements are not changed, so that nodes keep requesting pieces.
func (b *badPeer) spoil(good http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/o/") {
			good.ServeHTTP(w, r)
			return
		}
		begun := time.Now()
		a := &answer{header: http.Header{}, status: http.StatusOK}
		good.ServeHTTP(a, r)
		for k, v := range a.header {
			w.Header()[k] = v
		}
		if a.status != http.StatusOK {
			w.WriteHeader(a.status)
			_, _ = w.Write(a.body.Bytes()) // the requester may be gone
			return
		}
		b.send(w, r, a.body.Bytes(), begun)
	})
}

// send sends the spoiled body. It notes only answers that the node waited for: a node that closed the connection may
// have the piece from another peer.
func (b *badPeer) send(w http.ResponseWriter, r *http.Request, body []byte, begun time.Time) {
	switch b.as {
	case "corrupt":
		body[len(body)/2] ^= 0x40
		if _, err := w.Write(body); err == nil && r.Context().Err() == nil {
			b.note.Add(r, begun)
		}
	case "short":
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if _, err := w.Write(body[:len(body)/2]); err == nil && r.Context().Err() == nil {
			b.note.Add(r, begun)
		}
		panic(http.ErrAbortHandler) // closes the connection
	case "endless":
		w.Header().Del("Content-Length")
		for n := 0; ; n++ {
			if _, err := w.Write(body); err != nil {
				if n > 1 { // the node accepted more than it requested
					b.note.Add(r, begun)
				}
				return
			}
		}
	case "slow":
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if b.drip(w, r, body) {
			b.note.Add(r, begun)
		}
	default:
		panic(fmt.Sprintf("a bad peer is %q", b.as))
	}
}

// drip sends at a tenth of the rate of a link, and reports whether everything was accepted.
func (b *badPeer) drip(w http.ResponseWriter, r *http.Request, body []byte) (whole bool) {
	const part = 1448
	each := time.Duration(part * 8 * 10 * float64(time.Second) / float64(b.rate))
	for len(body) > 0 {
		n := min(part, len(body))
		if bench.Pause(r.Context(), each) != nil {
			return false
		}
		if _, err := w.Write(body[:n]); err != nil {
			return false
		}
		body = body[n:]
		_ = http.NewResponseController(w).Flush() // the next write returns the error
	}
	return true
}

// answer records the response of a handler.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the response.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader records the status.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write records bytes of the body.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
