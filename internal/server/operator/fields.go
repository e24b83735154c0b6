package operator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// applyNodeSet changes the fields of n that a request sets.
func applyNodeSet(n *fleet.Node, req api.NodeSet) (err error) {
	if req.Name != nil {
		n.Name = *req.Name
	}
	if req.Group != nil {
		n.Group = *req.Group
	}
	if req.Version != nil {
		n.Version, n.Follow = *req.Version, req.Follow
	}
	if req.KernelArgs != nil {
		n.KernelArgs = *req.KernelArgs
	}
	if req.Serial != nil {
		n.Serial = *req.Serial
	}
	for _, name := range req.Inherit {
		if err := n.Drop(name); err != nil {
			return httpapi.Invalid(err)
		}
	}
	n.Merge(req.Settings)
	if req.Address != nil {
		if n.Address, err = address(*req.Address); err != nil {
			return err
		}
	}
	for k, v := range req.Labels {
		if v == nil {
			delete(n.Labels, k)
			continue
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[k] = *v
	}
	for _, m := range req.AddMACs {
		if !slices.Contains(n.MACs, m) {
			n.MACs = append(n.MACs, m)
		}
	}
	n.MACs = slices.DeleteFunc(n.MACs, func(m fleet.MAC) bool { return slices.Contains(req.RemoveMACs, m) })
	n.Learned = slices.DeleteFunc(n.Learned, func(m fleet.MAC) bool {
		return slices.Contains(req.AddMACs, m) || !slices.Contains(n.MACs, m)
	})
	if len(n.MACs) == 0 && n.Serial == "" && (req.Serial != nil || len(req.RemoveMACs) > 0) {
		return httpapi.BadRequest("node "+n.Name+": "+errNoMachine.Error(),
			"add a MAC with --add-mac, or give --serial")
	}
	return nil
}

func cloneNode(n fleet.Node) fleet.Node {
	n.MACs, n.KernelArgs, n.Labels = slices.Clone(n.MACs), slices.Clone(n.KernelArgs), maps.Clone(n.Labels)
	n.Learned, n.Claimed = slices.Clone(n.Learned), slices.Clone(n.Claimed)
	return n
}

// diff collects "field: was -> is" for people.
type diff []string

func (d *diff) add(field, was, is string) {
	if was == is {
		return
	}
	for _, s := range []*string{&was, &is} {
		if *s == "" {
			*s = "none"
		}
	}
	*d = append(*d, fmt.Sprintf("%s: %s -> %s", field, was, is))
}

func nodeDiff(was, is fleet.Node) []string {
	d := diff{}
	d.add("name", was.Name, is.Name)
	d.add("state", string(was.State), string(is.State))
	d.add("group", was.Group, is.Group)
	d.add("image", fleet.RefText(was.Version, was.Follow), fleet.RefText(is.Version, is.Follow))
	d.add("address", addressText(was.Address), addressText(is.Address))
	d.add("kernel args", strings.Join(was.KernelArgs, " "), strings.Join(is.KernelArgs, " "))
	d.add("MACs", macText(was), macText(is))
	d.add("serial", was.Serial, is.Serial)
	d.add("TPM key", api.KeyPrint(was.TPMKey), api.KeyPrint(is.TPMKey))
	d.settings(was.Settings, is.Settings, "the group's")
	keys := map[string]bool{}
	for _, m := range []map[string]string{was.Labels, is.Labels} {
		for k := range m {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		d.add("label "+k, was.Labels[k], is.Labels[k])
	}
	return d
}

// settings adds the settings that differ. `unset` is shown for a setting without a value; if it is "", the default is
// shown.
func (d *diff) settings(was, is fleet.Settings, unset string) {
	for _, c := range was.Diff(is, unset) {
		*d = append(*d, c.String())
	}
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// macText returns the MACs of a node. It marks those that no operator declared.
func macText(n fleet.Node) string {
	var s []string
	for _, m := range n.MACs {
		text := m.String()
		if slices.Contains(n.Learned, m) {
			text += " (learned)"
		}
		s = append(s, text)
	}
	return strings.Join(s, " ")
}

func groupDiff(was, is fleet.Group) []string {
	d := diff{}
	d.add("image", fleet.RefText(was.Image, was.Follow), fleet.RefText(is.Image, is.Follow))
	d.add("kernel args", strings.Join(was.KernelArgs, " "), strings.Join(is.KernelArgs, " "))
	d.settings(was.Settings, is.Settings, "")
	return d
}
