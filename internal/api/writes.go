package api

import "pando/internal/fleet"

// Writes is what takes the writes of a node.
type Writes struct {
	Is string // as the node says
	// the write layer in its settings, if that differs: it was not available, or the settings changed since the boot
	Should string
}

// Writes reports what takes the writes of a node that runs, zero where that is not known.
func (n Node) Writes() (w Writes) {
	if n.Status == nil || n.Status.WriteLayer == "" {
		return w
	}
	w.Is = n.Status.WriteLayer
	for _, v := range n.Effective {
		if v.Setting != fleet.SettingWriteLayer {
			continue
		}
		if l, err := fleet.ParseWriteLayer(v.Value); err != nil || l.String() != w.Is {
			w.Should = v.Value
		}
	}
	return w
}

// String returns a text such as "tmpfs, and its settings say zram".
func (w Writes) String() string {
	if w.Should == "" {
		return w.Is
	}
	return w.Is + ", and its settings say " + w.Should
}
