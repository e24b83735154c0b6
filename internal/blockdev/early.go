package blockdev

// nextFew is how far beyond the piece that is read pieces are unpacked: boots that are alike read them in nearly the same order.
const nextFew = 4

// unpackEarly unpacks what a boot is about to read, when it reads from a piece: the pack has its pieces in the order in which boots read them. With a
// processor to spare a read does not wait for that. One is unpacked at a time, and nothing that is kept makes room for it.
func (d *Device) unpackEarly(piece int) {
	if !d.opts.Early || d.raws.busy() > 0 {
		return
	}
	for i := piece + 1; i < min(piece+1+nextFew, len(d.pack.pieces)); i++ {
		e := d.pack.pieces[i]
		if d.pack.upcoming(i) && d.raws.fits(rawKey{e.ID, true}, rawCost(e.RawSize)) {
			d.work.Go(func() {
				if c := d.piece(i); c != nil {
					d.raws.leave(c)
				}
			})
			return
		}
	}
}

// upcoming tells whether piece i is kept, and nobody has read from it yet.
func (p *pieces) upcoming(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[i].kept && !p.state[i].read
}

// fits tells whether k is neither there nor being made, and could be kept beside all that is.
func (g *group[K, V]) fits(k K, cost int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.kept.has(k) && g.running[k] == nil && g.kept.cost+cost <= g.kept.limit
}
