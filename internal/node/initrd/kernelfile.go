package initrd

import (
	"fmt"
	"os"
	"strconv"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/hardware"
	"pando/internal/link"
	"pando/internal/swarm"
	"pando/internal/trace"
)

// kernelShare: kernel and initramfs stay in memory for other machines if they take at most this part of it.
const kernelShare = 16

// keptKernel returns the file with kernel and initramfs, as the boot loader left it in the initramfs; nil: there is
// none, it is not whole, or the machine's memory is small.
func keptKernel(path string, objects []api.KernelObject, memory int64) *blockapi.KernelFile {
	var k blockapi.KernelFile
	var size int64
	for _, o := range objects {
		if len(o.Object) != 64 || o.Size <= 0 {
			return nil
		}
		k.Objects = append(k.Objects, blockapi.KernelObject{ID: o.Object, Size: o.Size})
		size += o.Size
	}
	if len(objects) == 0 || size > memory/kernelShare {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		f.Close()
		return nil
	}
	k.File = f
	return &k
}

// serveKernel adds the kernel file to the daemon's configuration, if peers can reach the daemon.
func (d *rootDevice) serveKernel(c *blockapi.Config) {
	if c.Swarm != nil {
		c.Kernel = keptKernel("/"+api.KernelPath, d.timeline.config.KernelFile, hardware.Memory())
	}
}

// tellKernel tells the server that this node serves its kernel and initramfs.
func (d *rootDevice) tellKernel(c blockapi.Config, lease link.Lease) {
	if c.Kernel == nil {
		return
	}
	var size int64
	for _, o := range c.Kernel.Objects {
		size += o.Size
	}
	port := c.Swarm.Port
	if port == 0 {
		port = swarm.Port
	}
	d.timeline.event(trace.Event{Stage: trace.Device, Kind: trace.Info,
		Message: fmt.Sprintf("kernel and initramfs, %.1f MB, can be loaded from here", float64(size)/1e6),
		Attrs: map[string]string{trace.AttrKernelPort: strconv.Itoa(int(port)),
			trace.AttrPrefix:          strconv.Itoa(lease.Address.Bits()),
			trace.AttrServedKernel:    c.Kernel.Objects[0].ID,
			trace.AttrServedInitramfs: c.Kernel.Objects[len(c.Kernel.Objects)-1].ID}})
	d.timeline.report.Wake()
}
