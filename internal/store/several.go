package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"pando/internal/chunk"
)

// MostSeveral is how many objects are asked for with one question at most.
const MostSeveral = 32

// errSingly says that a source sends one object for each question.
var errSingly = errors.New("the source sends objects singly")

// several is a source that sends several objects for one question.
type several interface {
	GetSeveral(ctx context.Context, rs []Request, came func(i int, v chunk.Verified)) error
}

// GetSeveral makes one attempt at objects whose sizes are known, with one question: POST URL/o, with a line of 64
// hex digits for each. The answer is the first ones of them, end to end, and its length says how many. came is
// called for each, in order. The error says why the next one did not come; nil: no more are sent this time. The
// patience is that of the first request.
func (h *HTTP) GetSeveral(ctx context.Context, rs []Request, came func(i int, v chunk.Verified)) error {
	if h.isBucket() || h.Brief {
		return errSingly
	}
	ctx, wind, end := patiently(ctx, rs[0].Patience)
	defer end()
	resp, err := h.postNames(ctx, rs)
	if err != nil {
		return fmt.Errorf("get %d objects from %s: %w", len(rs), h.URL, because(ctx, err))
	}
	defer resp.Body.Close()
	n, err := together(rs, resp.ContentLength)
	if err != nil {
		return fmt.Errorf("get %d objects from %s: %w", len(rs), h.URL, err)
	}
	for i, r := range rs[:n] {
		b := make([]byte, r.Size)
		if _, err := io.ReadFull(winding{resp.Body, wind}, b); err != nil {
			return fmt.Errorf("get %s from %s: %w", r.ID, h.URL, because(ctx, err))
		}
		v, err := h.Proofs.Check(r.ID, b)
		if err != nil {
			return fmt.Errorf("get from %s: %w", h.URL, err)
		}
		came(i, v)
	}
	return nil
}

// postNames asks. A server of before this question was there, or any other web server, has no such path.
func (h *HTTP) postNames(ctx context.Context, rs []Request) (*http.Response, error) {
	var names strings.Builder
	for _, r := range rs {
		names.WriteString(r.ID.Name() + "\n")
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		strings.TrimSuffix(h.URL, "/")+"/o",
		strings.NewReader(names.String()),
	)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "") // none
	resp, err := h.Client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusServiceUnavailable:
		err = ErrBusy
	default:
		err = errSingly
	}
	_ = resp.Body.Close()
	return nil, err
}

// together is how many objects, from the first on, have so many bytes together.
func together(rs []Request, length int64) (n int, err error) {
	sum := int64(0)
	for ; n < len(rs) && sum < length; n++ {
		sum += rs[n].Size
	}
	if n == 0 || sum != length {
		return 0, errSingly
	}
	return n, nil
}

// winding is a body of which every read that brings something is told.
type winding struct {
	io.Reader
	wind func()
}

// Read reads.
func (w winding) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.wind()
	}
	return n, err
}

// GetSeveral asks the source that answered last for objects whose sizes are known, and calls came for each that it
// sends, in order. What does not come is to be asked for by Get: nobody else is asked here, and of a source that
// sends objects singly it is not expected again.
func (f *Failover) GetSeveral(ctx context.Context, rs []Request, came func(i int, v chunk.Verified)) {
	n := f.last.Load()
	s, ok := f.sources[n].(several)
	if !ok || f.singly[n].Load() {
		return
	}
	rs[0].Patience = f.Slow.Least(patience(len(f.sources), 0))
	next := 0
	err := s.GetSeveral(ctx, rs, func(i int, v chunk.Verified) {
		f.observer.Received(f.sources[n].Name(), len(v.Stored()))
		came(i, v)
		next = i + 1
	})
	switch {
	case err == nil, errors.Is(err, ErrBusy), ctx.Err() != nil:
	case errors.Is(err, errSingly):
		f.singly[n].Store(true)
	default:
		f.observer.Failed(f.sources[n].Name(), rs[next].ID, err)
		f.last.CompareAndSwap(n, (n+1)%int32(len(f.sources))) // who asks for what did not come begins with the next one
	}
}
