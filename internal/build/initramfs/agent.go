package initramfs

import (
	"bytes"
	"context"
	"errors"
)

// AgentPacking names the compression of AgentCPIO: archives of the same program and the same name are
// interchangeable.
const AgentPacking = "1"

// AgentCPIO returns the cpio with the node's program: /init, the mount points, and /sbin/modprobe, which the kernel
// runs for a missing module (a PHY's driver, for example). It is compressed for the kernel. It has no shell and no
// other program.
func AgentCPIO(ctx context.Context, binary []byte) ([]byte, error) {
	if !bytes.HasPrefix(binary, []byte("\x7fELF")) {
		return nil, errors.New("agent cpio: pando-init is not an ELF program (build it with `make build`)")
	}
	c := newCPIO()
	for _, d := range []string{"dev", "newroot", "pando", "proc", "run", "sys"} {
		c.dir(d, 0o755)
	}
	c.file("init", 0o755, binary)
	c.symlink("sbin/modprobe", "/init")
	raw, err := c.bytes()
	if err != nil {
		return nil, err
	}
	return compressAgent(ctx, raw)
}
