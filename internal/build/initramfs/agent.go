package initramfs

import (
	"bytes"
	"context"
	"errors"
)

// AgentPacking names what AgentCPIO makes of a program: two cpios of one program and one packing are as good as
// each other.
const AgentPacking = "1"

// AgentCPIO returns the cpio with the node's program: /init, the directories that it mounts things on, and
// /sbin/modprobe, by which the kernel asks for a module that it misses (a PHY's driver, say). It is
// compressed for the kernel. There is no shell in it and no other program.
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
