package blockdev

// ReadNow fills p from off, as ReadAt does, if all of it is in memory as raw bytes of the boot pack. Otherwise it
// returns false and does nothing. It never waits, so a caller that serves reads one by one can answer such reads at
// once.
func (d *Device) ReadNow(p []byte, off int64) bool {
	if d.pack == nil || off < 0 || off > d.Size() || int64(len(p)) > d.Size()-off {
		return false // ReadAt reports the error
	}
	spans := d.layout().split(off, int64(len(p)))
	if !d.readNow(p, off, spans) {
		return false
	}
	for _, s := range spans {
		d.noteRead(s.piece, s.at, s.n)
		d.unpackNext(s.piece)
		d.opts.Served("pack", int(s.n))
	}
	d.readAhead(off, int64(len(p)))
	return true
}

// readNow copies the spans of p, which begins at off, if all of them are in memory.
func (d *Device) readNow(p []byte, off int64, spans []span) bool {
	raws := make([]*call[*raw], len(spans))
	defer d.leaveAll(raws)
	for i, s := range spans {
		if s.piece < 0 {
			return false
		}
		c, ok := d.raws.peek(rawKey{d.pack.pieces[s.piece].ID, true})
		if !ok {
			return false
		}
		if raws[i] = c; !c.value.has(s.at, s.n) {
			return false
		}
	}
	for i, s := range spans {
		raws[i].value.read(p[s.off-off:][:s.n], s.at)
	}
	return true
}

// leaveAll leaves the calls that are not nil.
func (d *Device) leaveAll(calls []*call[*raw]) {
	for _, c := range calls {
		if c != nil {
			d.raws.leave(c)
		}
	}
}
