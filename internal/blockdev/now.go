package blockdev

// ReadNow fills p from off, as ReadAt does, if all of it is in memory as raw bytes of the boot pack. Otherwise it does nothing and returns
// false. It never waits: who answers one read after the other can answer these at once.
func (d *Device) ReadNow(p []byte, off int64) bool {
	if d.pack == nil || off < 0 || off > d.Size() || int64(len(p)) > d.Size()-off {
		return false // ReadAt says what is wrong
	}
	spans := d.layout().split(off, int64(len(p)))
	raws := make([]*call[[]byte], len(spans))
	defer d.leaveAll(raws)
	for i, s := range spans {
		if s.piece < 0 {
			return false
		}
		raw, ok := d.raws.peek(rawKey{d.pack.pieces[s.piece].ID, true})
		if !ok {
			return false
		}
		raws[i] = raw
	}
	for i, s := range spans {
		dst := p[s.off-off:][:s.n]
		copy(dst, raws[i].value[s.at:])
		d.noteRead(s.piece, s.at, s.n)
		d.opts.Served("pack", len(dst))
	}
	d.readAhead(off, int64(len(p)))
	return true
}

// leaveAll leaves the calls that are there.
func (d *Device) leaveAll(calls []*call[[]byte]) {
	for _, c := range calls {
		if c != nil {
			d.raws.leave(c)
		}
	}
}
