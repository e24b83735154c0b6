package blockdev

import "time"

// How soon it is looked again whether a machine is still busy, at first and at most.
const (
	lookSoon   = 200 * time.Millisecond
	lookSeldom = 2 * time.Second
)

// held tells whether what is for later has to wait, because the machine is busy: to receive and verify it takes
// processor time from the boot, or from a user, who may never read it. A desktop's boot on one processor took 14.8
// s when it fetched all of a pack of 124 MB before it had booted, and 11.4 s with the 43 MB that it read. When the
// answer is yes, stir is called after a while. Callers hold mu.
func (p *pieces) held() bool {
	if !p.Busy() {
		p.again = 0
		return false
	}
	if !p.looks {
		p.looks = true
		p.again = min(max(2*p.again, lookSoon), lookSeldom)
		time.AfterFunc(p.again, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.looks = false
			p.stir()
		})
	}
	return true
}
