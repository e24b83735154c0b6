package api

import "pando/internal/fleet"

// Writes is the write layer of a running node.
type Writes struct {
	Is string // as the node reports
	// the write layer in its settings if it differs: it was not available, or the settings changed since the boot
	Should string
}

// Writes returns the write layer of a running node, the zero value if it is unknown.
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
