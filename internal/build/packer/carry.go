package packer

import "pando/internal/imagefs"

// CarryOver translates the order of a pack from one version to another, by file path and offset; directories count as
// files. A block of inodes becomes the blocks with the same files' inodes. Blocks of files that the new version lacks
// are left out. Files that only the new version has are not added.
func CarryOver(order Order, from, to *imagefs.Map) Order {
	c := carrier{from: from, to: to, seen: map[uint32]bool{}}
	before := int64(0)
	for _, e := range order.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			if before == order.Booted {
				c.out.Booted = c.blocks
			}
			before++
			c.block(b)
		}
	}
	if before <= order.Booted {
		c.out.Booted = c.blocks
	}
	return c.out
}

type carrier struct {
	from, to *imagefs.Map
	seen     map[uint32]bool
	out      Order
	blocks   int64
}

func (c *carrier) block(b uint32) {
	if old, ok := c.from.At(b); ok {
		if f, ok := c.to.FindLike(old.Path); ok && f.Dir == old.Dir && b-old.Start < f.Blocks {
			c.add(f.Start + b - old.Start)
		}
		return
	}
	if b == 0 {
		c.add(0) // the super block
	}
	for _, old := range c.from.InodesIn(b) {
		if f, ok := c.to.FindLike(old.Path); ok {
			c.add(f.Inode)
		}
	}
}

func (c *carrier) add(b uint32) {
	if c.seen[b] {
		return
	}
	c.seen[b] = true
	c.out.add(b)
	c.blocks++
}
