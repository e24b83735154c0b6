package boots

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/bootlog"
	"pando/internal/endpoint"
	"pando/internal/httpapi"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/sockopt"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// autoexec is the script that newer iPXE builds request by TFTP before anything else.
const autoexec = "autoexec.ipxe"

// bootFiles are the iPXE builds that are served.
type bootFiles interface {
	File(name string) []byte  // nil: there is none
	Asked(name string) []byte // the same for a TFTP name, which may have bytes appended
}

// loaders serves boot files.
type loaders struct {
	files    bootFiles
	registry Registry
	boots    *bootlog.Boots
	ports    *endpoint.Ports
	packets  *packets
	sender   *sender
}

// ServeBootFile answers GET and HEAD /boot/file/<name>, the URL that UEFI HTTP Boot gets.
func (s *loaders) ServeBootFile(w http.ResponseWriter, r *http.Request, name string) error {
	data := s.files.File(name)
	if data == nil {
		return fmt.Errorf("boot file %q: %w", name, fs.ErrNotExist)
	}
	w.Header().Set("Content-Type", "application/efi")
	c := s.boots.At(httpapi.RemoteAddr(r))
	if c != nil && r.Method == http.MethodGet && !s.ofNext(c, name) {
		return s.sender.sendK(w, r, c, trace.BootFile, bytes.NewReader(data))
	}
	sockopt.LetMessagesPass(r.Context())
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	return nil
}

// ofNext reports whether a boot file belongs to the boot after c, whose script is not requested yet, and records that.
func (s *loaders) ofNext(c *bootlog.Entry, name string) bool {
	c.Lock()
	defer c.Unlock()
	now := s.packets.now()
	if !s.packets.runs(c, now) && !(c.UnderWay(now) && c.Restarted(now, true)) {
		return false
	}
	c.Knocked(now, string(netboot.HTTPBoot), trace.Event{Stage: trace.BootFile, Kind: trace.End,
		Attrs: map[string]string{"file": name}})
	return true
}

// KnownAt reports whether the machine that boots at an address belongs to a node that has registered or was declared.
func (s *loaders) KnownAt(addr netip.Addr) bool {
	c := s.boots.At(addr)
	if c == nil {
		return false
	}
	known := false
	err := s.registry.View(context.Background(), func(tx *registry.Tx) (err error) {
		known, err = tx.KnownMAC(c.MAC)
		return err
	})
	return err == nil && known
}

// OpenTFTP returns the content for a TFTP name.
func (s *loaders) OpenTFTP(_ context.Context, r tftp.Request) (tftp.Content, error) {
	if r.Name == autoexec {
		return bytes.NewReader(netboot.Chain(s.ports.DataURL(r.Local.Unmap()))), nil
	}
	data := s.files.Asked(r.Name)
	if data == nil {
		return nil, fs.ErrNotExist
	}
	return bytes.NewReader(data), nil
}
