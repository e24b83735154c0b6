package blockd

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"pando/internal/blockapi"
	"pando/internal/sockopt"
)

// Limits of the upload of kernel and initramfs: how many at once, how long one may take in all, and how long a machine
// may take none of it.
const (
	kernelUploads = 2
	kernelTime    = 2 * time.Minute
	kernelStalled = 20 * time.Second
	kernelStep    = 128 << 10 // bytes that are read at a time
)

// kernelServer serves the kernel and the initramfs that this node was started with.
type kernelServer struct {
	file    *blockapi.KernelFile
	next    http.Handler // everything else
	places  chan struct{}
	uploads *sockopt.Scheduler
	sent    func(bytes int64)
}

// withKernel returns a handler that serves the daemon's kernel file, and leaves other requests to next.
func (d *blockDaemon) withKernel(next http.Handler, uploads *sockopt.Scheduler) http.Handler {
	if d.cfg.Kernel == nil {
		return next
	}
	return &kernelServer{d.cfg.Kernel, next, make(chan struct{}, kernelUploads), uploads,
		func(n int64) { d.ledger.add(bytesUploaded, n) }}
}

// ServeHTTP answers GET /o/<id> of kernel and initramfs.
func (k *kernelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var offset int64
	for _, o := range k.file.Objects {
		if r.Method == http.MethodGet && r.URL.Path == "/o/"+o.ID {
			k.send(w, r, io.NewSectionReader(k.file.File, offset, o.Size))
			return
		}
		offset += o.Size
	}
	k.next.ServeHTTP(w, r)
}

func (k *kernelServer) send(w http.ResponseWriter, r *http.Request, content *io.SectionReader) {
	select {
	case k.places <- struct{}{}:
		defer func() { <-k.places }()
	default:
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	leave := k.uploads.UploadAhead(r.Context())
	defer leave()
	writer, end := http.NewResponseController(w), time.Now().Add(kernelTime)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(content.Size(), 10))
	for time.Now().Before(end) {
		_ = writer.SetWriteDeadline(time.Now().Add(kernelStalled)) // not every connection has deadlines
		n, err := io.CopyN(w, content, kernelStep)
		k.sent(n)
		if err != nil {
			break // all is sent, or the machine is gone
		}
	}
	if writer.Flush() == nil {
		sockopt.DrainAll(r.Context(), kernelStalled)
	}
}
