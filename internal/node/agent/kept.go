package agent

import (
	"pando/internal/lastboot"
)

// keptNote has the cache's disk say that this boot came up.
type keptNote struct {
	who    *identity
	voice  *voice
	record *record
	marked bool
}

// look has the cache's disk say that this boot came up, once. Nothing waits for it: a disk that hangs is left
// alone with it. The block daemon has the disk open, and writes elsewhere.
func (n *keptNote) look() {
	k := n.who.session.Kept
	if k == nil || !n.record.up.Load() || n.marked {
		return
	}
	n.marked = true
	go func() {
		if err := lastboot.NoteBooted(*k); err != nil {
			n.voice.logf("%v", err)
			n.voice.Info(
				err.Error(),
				"without a server the node boots what came up before, if that is kept; is the disk broken, or was "+
					"it pulled out?",
			)
		}
	}()
}
