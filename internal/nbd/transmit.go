package nbd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// transmission is the second part of a connection: requests in, answers out in any order.
type transmission struct {
	conn   net.Conn
	dev    Device
	prompt Prompt // dev, if it is one
	size   uint64
	budget *budget
	cancel context.CancelCauseFunc
	reads  sync.WaitGroup

	out sync.Mutex // one answer at a time on conn

	buffers sync.Pool // of *[pooled]byte, for reads of usual size
}

// pooled is the size of pooled buffers, in bytes. It covers the kernel's usual read-ahead. A smaller read touches only
// the pages that it fills.
const pooled = 128 << 10

func (t *transmission) buffer(n uint32) (p []byte, done func()) {
	if n > pooled {
		return make([]byte, n), func() {}
	}
	b, ok := t.buffers.Get().(*[pooled]byte)
	if !ok {
		b = new([pooled]byte)
	}
	return b[:n], func() { t.buffers.Put(b) }
}

func (s *Server) transmit(ctx context.Context, c net.Conn, dev Device) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	requests, buffer := s.Requests, s.Buffer
	if requests <= 0 {
		requests = 16
	}
	if buffer <= 0 {
		buffer = 4 << 20
	}
	t := &transmission{conn: c, dev: dev, size: uint64(dev.Size()), cancel: cancel,
		budget: newBudget(requests, buffer)}
	t.prompt, _ = dev.(Prompt)
	err := t.loop(ctx)
	if err != nil {
		// No client takes the answers of the reads that still run.
		cancel(err)
	}
	t.reads.Wait()
	// A failed write tells more than the read that failed because of it.
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(err, io.EOF) {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// loop reads requests until the client disconnects (nil), hangs up (io.EOF) or breaks the framing.
func (t *transmission) loop(ctx context.Context) error {
	in := bufio.NewReaderSize(t.conn, 4096)
	var b [requestSize]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			if err == io.EOF {
				return io.EOF
			}
			return fmt.Errorf("nbd: read request: %w", err)
		}
		r, err := parseRequest(b[:])
		if err != nil {
			return err
		}
		if r.Command == cmdDisconnect {
			return nil
		}
		if r.Command == cmdRead {
			err = t.startRead(ctx, r)
		} else {
			err = t.refuse(in, r)
		}
		if err != nil {
			return err
		}
	}
}

// refuse answers every request that is not a read. It skips a payload, to keep the framing.
func (t *transmission) refuse(in io.Reader, r request) error {
	var e Errno
	switch r.Command {
	case cmdFlush:
		e = 0 // nothing was written, so nothing is dirty
	case cmdWrite:
		if r.Length > MaxRequest {
			return fmt.Errorf("nbd: write of %d bytes to a read-only export", r.Length)
		}
		if _, err := io.CopyN(io.Discard, in, int64(r.Length)); err != nil {
			return fmt.Errorf("nbd: payload of a refused write: %w", err)
		}
		e = EPERM
	case cmdTrim, cmdWriteZeroes:
		e = EPERM
	default:
		e = EINVAL
	}
	return t.answer(r.Handle, e, nil)
}

// check returns why a read cannot be served, or 0.
func (t *transmission) check(r request) Errno {
	switch {
	case r.Flags&^cmdFlagFUA != 0, r.Length == 0:
		return EINVAL
	case r.Length > MaxRequest:
		return EOVERFLOW
	case r.Offset > t.size, uint64(r.Length) > t.size-r.Offset:
		return EINVAL
	}
	return 0
}

// startRead answers a read at once if it can. Otherwise it waits for room in the budget and reads in the background.
func (t *transmission) startRead(ctx context.Context, r request) error {
	if e := t.check(r); e != 0 {
		return t.answer(r.Handle, e, nil)
	}
	if done, err := t.readNow(r); done || err != nil {
		return err
	}
	if err := t.budget.take(ctx, int64(r.Length)); err != nil {
		return err
	}
	t.reads.Go(func() {
		defer t.budget.give(int64(r.Length))
		p, done := t.buffer(r.Length)
		defer done()
		e := errno(t.dev.ReadAt(ctx, p, int64(r.Offset)))
		if ctx.Err() != nil {
			// Not an error of the device: the connection ends, and the kernel repeats the request on the next one.
			return
		}
		if e != 0 {
			p = nil
		}
		if err := t.answer(r.Handle, e, p); err != nil {
			t.cancel(err)
			t.conn.Close() // ends the loop
		}
	})
	return nil
}

// readNow answers a read if its device can do so without waiting. Another goroutine would wake another thread of a
// booting machine, to copy a few pages.
func (t *transmission) readNow(r request) (answered bool, err error) {
	if t.prompt == nil || r.Length > pooled {
		return false, nil
	}
	p, done := t.buffer(r.Length)
	defer done()
	if !t.prompt.ReadNow(p, int64(r.Offset)) {
		return false, nil
	}
	return true, t.answer(r.Handle, 0, p)
}

func errno(err error) Errno {
	var e Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e) && e != 0:
		return e
	}
	return EIO
}

func (t *transmission) answer(handle uint64, e Errno, data []byte) error {
	var head [replySize]byte
	putReply(&head, handle, e)
	bufs := net.Buffers{head[:], data}
	if len(data) == 0 {
		bufs = bufs[:1]
	}
	t.out.Lock()
	defer t.out.Unlock()
	if _, err := bufs.WriteTo(t.conn); err != nil {
		return fmt.Errorf("nbd: write answer: %w", err)
	}
	return nil
}
