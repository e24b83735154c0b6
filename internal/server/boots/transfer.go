package boots

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/admission"
	"pando/internal/bootlog"
	"pando/internal/chunk"
	"pando/internal/sockopt"
	"pando/internal/trace"
)

// counter counts the bytes of an answer. It keeps net/http's path to sendfile(2).
type counter struct {
	http.ResponseWriter
	n      int64
	status int
	sent   func(int64) // called after each write, with its bytes
}

func (c *counter) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	c.sent(int64(n))
	return n, err
}

// uploadTime bounds how long the end of an answer may take to reach the node.
const uploadTime = time.Minute

// sendStep is how many bytes are sent before they are reported as sent.
const sendStep = 256 << 10

// ReadFrom is called by io.Copy. It uses net/http's ReadFrom, which calls sendfile(2) for a file or a limited part of
// one.
func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := c.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	var total int64
	for limited.N > 0 {
		step := min(limited.N, sendStep)
		n, err := rf.ReadFrom(&io.LimitedReader{R: limited.R, N: step})
		limited.N -= n
		total += n
		c.n += n
		c.sent(n)
		if err != nil || n < step {
			return total, err
		}
	}
	return total, nil
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// sender sends kernels, initramfs and boot files.
type sender struct {
	boots     *bootlog.Boots
	admission *admission.Queue
	uploads   *sockopt.Scheduler
	now       func() time.Time
}

// sendK sends a part of kernel+initrd and records it as a stage of the boot.
func (s *sender) sendK(
	w http.ResponseWriter,
	r *http.Request,
	c *bootlog.Entry,
	stage trace.Stage,
	content io.ReadSeeker,
) error {
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	s.boots.RecordUnlocked(c, trace.Event{Stage: stage, Kind: trace.Begin})
	var slot admission.Transfer
	if stage == trace.BootFile { // boot files are small, and need no slot before the script
		sockopt.LetMessagesPass(r.Context())
	} else {
		slot = s.admission.Begin(c.MAC)
		leave := s.uploads.UploadBulk(r.Context())
		defer func() {
			_ = http.NewResponseController(w).Flush() // the machine may be gone
			sockopt.DrainAll(r.Context(), uploadTime)
			leave()
		}()
	}
	out := &counter{ResponseWriter: w}
	out.sent = func(bytes int64) {
		left := int64(math.MaxInt64) // the initramfs comes after the kernel
		if stage == trace.Initramfs {
			left = size - out.n
		}
		slot.Sent(bytes, left)
	}
	http.ServeContent(out, r, "", time.Time{}, content)
	end := trace.Event{Stage: stage, Kind: trace.End, Bytes: bootlog.BytesK(out.n)}
	if out.n < size && out.status == http.StatusOK {
		end.Kind = trace.Fail
		end.Message = fmt.Sprintf("%s was broken off after %s of "+
			"%s", stage, bootlog.BytesText(out.n), bootlog.BytesText(size))
		end.Hint = "the boot loader requests it again; if not, look at the machine's screen, its cable and its memory"
	}
	if stage == trace.Initramfs || end.Kind == trace.Fail {
		slot.End()
	}
	if stage == trace.Initramfs && out.n >= size {
		c.Lock()
		c.Loaded(s.now())
		c.Unlock()
	}
	s.boots.RecordUnlocked(c, end)
	return nil
}

// SendKernel returns the function that sends kernel or initramfs to a machine, nil if its script does not name the
// object.
func (s *sender) SendKernel(
	machine netip.Addr,
	id chunk.ID,
) func(http.ResponseWriter, *http.Request, io.ReadSeeker) error {
	c := s.boots.At(machine)
	if c == nil {
		return nil
	}
	stage := stageOf(c, id)
	if stage == "" {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request, f io.ReadSeeker) error {
		return s.sendK(w, r, c, stage, f)
	}
}

// stageOf returns the stage in which a machine loads an object that its script names, "" for other objects.
func stageOf(c *bootlog.Entry, id chunk.ID) trace.Stage {
	c.Lock()
	defer c.Unlock()
	switch id.Name() {
	case c.Kernel:
		return trace.Kernel
	case c.Load.Objects.Initramfs:
		return trace.Initramfs
	}
	return ""
}
