package boots

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/bootlog"
	"pando/internal/httpapi"
	"pando/internal/ratelimit"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// Bounds of log lines about refusals to addresses without a known boot: lines at once, and lines a second.
const (
	refusalBurst = 20
	refusalRate  = 0.2
)

// refuser records requests that were refused.
type refuser struct {
	boots *bootlog.Boots
	lines *ratelimit.Bucket // limits log lines about addresses without a known boot
	now   func() time.Time
	log   *slog.Logger
}

// Refusals records requests that a handler refuses: on the timeline of the machine that sent them, and in the log.
// Firmware shows only the number of an error, and a kernel that cannot start shows nothing.
func (s *refuser) Refusals(stage trace.Stage, h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		from := httpapi.RemoteAddr(r)
		c := s.boots.At(from)
		if stage == trace.Kernel && (c == nil || !asksKernel(c, r.PathValue("id"))) {
			return h(w, r) // running nodes request objects as well
		}
		before := lastFailure(c)
		err := h(w, r)
		if err != nil && r.Context().Err() == nil && lastFailure(c) == before {
			s.refused(r.Context(), from, stage, r.URL.Path, err)
		}
		return err
	}
}

// asksKernel reports whether an object is the kernel that the machine's script names.
func asksKernel(c *bootlog.Entry, object string) bool {
	c.Lock()
	defer c.Unlock()
	return c.Kernel != "" && c.Kernel == object
}

// lastFailure returns the last failure on a boot's timeline. c may be nil.
func lastFailure(c *bootlog.Entry) string {
	if c == nil {
		return ""
	}
	c.Lock()
	defer c.Unlock()
	return c.Failure
}

// refused records that a request of an address was refused.
func (s *refuser) refused(ctx context.Context, from netip.Addr, stage trace.Stage, what string, err error) {
	e := httpapi.ErrorOf(err)
	isNew, node := false, ""
	if c := s.boots.At(from); c != nil {
		c.Lock()
		isNew, node = s.boots.Fail(ctx, c, stage, e.Message, e.Hint), c.Boot.Node
		c.Unlock()
	} else {
		isNew = s.lines.Take(s.now())
	}
	if isNew {
		s.log.Warn("boot request refused", "peer", from, "node", node, "request", httpapi.Clip(what, 200),
			"err", e.Message)
	}
}

// noFile records that a machine requested a file by TFTP that does not exist. This is no failure, because loaders
// request more than they need. TFTP's own log has it as well.
func (s *refuser) noFile(t tftp.Transfer) {
	c := s.boots.At(t.Peer.Addr().Unmap())
	if c == nil {
		return
	}
	name := httpapi.Clip(t.Name, 100)
	c.Lock()
	defer c.Unlock()
	s.boots.NoteBehind(c, trace.BootFile, "no boot file "+name+": "+t.Err.Error(),
		"if no other boot loader requests this file, look at option 67 of the site's DHCP server")
}
