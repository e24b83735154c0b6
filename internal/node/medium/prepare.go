package medium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/disk"
	"pando/internal/media"
	"pando/internal/problem"
)

// prepareMost bounds the time to prepare a boot medium.
const prepareMost = 2 * time.Minute

// Prepare makes a disk this node's cache, and also a boot medium if the command says so.
func (m *Renewer) Prepare(sys, dev, proc string, e api.NodeCommand) error {
	if !e.Bootable {
		return disk.PrepareCache(sys, dev, proc, e.Device, e.DryRun)
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareMost)
	defer cancel()
	maker := &mediumMaker{ask: func(size int64) (io.ReadCloser, error) {
		return m.control.Stream(
			ctx,
			"/v1/node/medium",
			"Bearer "+m.self().Session,
			api.NodeMedium{Boot: m.self().Boot, Size: size},
		)
	}}
	defer maker.close()
	return disk.Prepare(sys, dev, proc, e.Device, e.DryRun, maker)
}

// mediumMaker makes a whole disk a boot medium with the content that the server sends.
type mediumMaker struct {
	ask    func(size int64) (io.ReadCloser, error) // gets a medium for a disk of size bytes from the server
	stream io.ReadCloser                           // the server's answer; nil: not requested yet
}

// Check also requests the content from the server, which refuses before the first byte if it lacks parts of a medium.
func (m *mediumMaker) Check(d api.Disk, sector int) (err error) {
	switch {
	case d.Of != "":
		return &problem.Problem{
			Err:  fmt.Errorf("%s is a partition, and a boot medium is a whole disk", d.Name),
			Hint: "name " + d.Of + "; nothing was written",
		}
	case sector != media.Sector:
		return &problem.Problem{
			Err:  fmt.Errorf("%s has sectors of %d bytes, a boot medium needs %d", d.Name, sector, media.Sector),
			Hint: "name another, or make it a cache without --bootable; nothing was written",
		}
	case d.Size < media.MinSize:
		return &problem.Problem{
			Err:  fmt.Errorf("%s has %d MB, a boot medium needs %d", d.Name, d.Size/1e6, media.MinSize/1_000_000+1),
			Hint: "name another; nothing was written",
		}
	}
	if m.stream, err = m.ask(d.Size); err != nil {
		return &problem.Problem{Err: fmt.Errorf("ask the server for a boot medium: %w", err), Hint: unwritten(err)}
	}
	if m.stream == nil {
		return &problem.Problem{
			Err:  fmt.Errorf("the server has nothing to write to %s", d.Name),
			Hint: "nothing was written",
		}
	}
	return nil
}

// unwritten returns a hint that nothing was written, with the server's advice if the server refused.
func unwritten(err error) string {
	var r *control.Refused
	if errors.As(err, &r) && r.Hint() != "" {
		return "nothing was written; the server says: " + r.Hint()
	}
	return "nothing was written"
}

func (m *mediumMaker) Write(f *os.File, d api.Disk, _ int) error {
	_, err := media.Carry(f, d.Size, m.stream)
	return err
}

// close closes the server's answer. A dry run does not read it.
func (m *mediumMaker) close() {
	if m.stream != nil {
		m.stream.Close()
	}
}
