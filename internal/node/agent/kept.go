package agent

import (
	"pando/internal/lastboot"
)

// bootedNote records on the cache disk that this boot came up, so that the node can repeat it without a server.
type bootedNote struct {
	who    *identity
	sender *sender
	record *record
	marked bool
}

// look writes the note once, in the background because a disk may hang. The block daemon has the same disk open, and
// writes to other parts of it.
func (n *bootedNote) look() {
	k := n.who.session.Kept
	if k == nil || !n.record.up.Load() || n.marked {
		return
	}
	n.marked = true
	go func() {
		if err := lastboot.NoteBooted(*k); err != nil {
			n.sender.logf("%v", err)
			n.sender.Info(
				err.Error(),
				"without a server the node boots what came up before, if that is kept; is the disk broken, or was "+
					"it pulled out?",
			)
		}
	}()
}
