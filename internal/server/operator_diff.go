package server

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// applyNodeSet changes n as a request says.
func applyNodeSet(n *fleet.Node, req api.NodeSet) (err error) {
	if req.Name != nil {
		n.Name = *req.Name
	}
	if req.Group != nil {
		n.Group = *req.Group
	}
	if req.Version != nil {
		n.Version = *req.Version
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
	n.Merge(req.Overrides)
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
	return nil
}

func cloneNode(n fleet.Node) fleet.Node {
	n.MACs, n.KernelArgs, n.Labels = slices.Clone(n.MACs), slices.Clone(n.KernelArgs), maps.Clone(n.Labels)
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
	d.add("version", string(was.Version), string(is.Version))
	d.add("address", addressText(was.Address), addressText(is.Address))
	d.add("kernel args", strings.Join(was.KernelArgs, " "), strings.Join(is.KernelArgs, " "))
	d.add("MACs", macText(was.MACs), macText(is.MACs))
	d.add("serial", was.Serial, is.Serial)
	d.add("TPM key", api.KeyPrint(was.TPMKey), api.KeyPrint(is.TPMKey))
	d.overrides(was.Overrides, is.Overrides)
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

// overrides adds what a node has otherwise than its group; "the group's" is what it has not.
func (d *diff) overrides(was, is fleet.Overrides) {
	text := func(o fleet.Overrides, name string) string {
		if !slices.Contains(o.Set(), name) {
			return "the group's"
		}
		return settingText(o.Of(fleet.Group{}), name)
	}
	for _, name := range fleet.OverrideNames() {
		before, after := text(was, name), text(is, name)
		if name == fleet.SettingAuthorizedKeys && before == after &&
			!slices.Equal(was.Of(fleet.Group{}).AuthorizedKeys, is.Of(fleet.Group{}).AuthorizedKeys) {
			after = "others"
		}
		d.add(strings.ReplaceAll(name, "_", " "), before, after)
	}
}

// settingText is one setting of a group for people.
func settingText(g fleet.Group, name string) string {
	switch name {
	case fleet.SettingAuthorizedKeys:
		return fmt.Sprint(len(g.AuthorizedKeys))
	case fleet.SettingUnlockRoot:
		return fmt.Sprint(g.UnlockRoot)
	case fleet.SettingRebootAfter:
		return rebootText(g.RebootAfter)
	case fleet.SettingWriteLimit:
		return cmp.Or(g.WriteLimit, "the default")
	case fleet.SettingPeers:
		return string(g.Peers.Effective())
	case fleet.SettingShare:
		return shareText(g.Share)
	case fleet.SettingCache:
		return string(g.Cache.Effective())
	case fleet.SettingCacheSize:
		return shareText(g.CacheSize)
	case fleet.SettingSecrets:
		return string(g.Secrets.Effective())
	case fleet.SettingOffline:
		return offlineText(g.Offline)
	case fleet.SettingPower:
		return cmp.Or(string(g.Power), string(fleet.PowerWOL))
	case fleet.SettingHours:
		return cmp.Or(string(g.Hours), "none")
	case fleet.SettingSweep:
		return fmt.Sprint(g.Sweep)
	}
	f, _ := g.Keeping.Field(name)
	return cmp.Or(f.String(), fleet.KeepingDefault(name))
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func macText(macs []fleet.MAC) string {
	var s []string
	for _, m := range macs {
		s = append(s, m.String())
	}
	return strings.Join(s, " ")
}

func groupDiff(was, is fleet.Group) []string {
	d := diff{}
	d.add("image", string(was.Image), string(is.Image))
	d.add("kernel args", strings.Join(was.KernelArgs, " "), strings.Join(is.KernelArgs, " "))
	if !slices.Equal(was.AuthorizedKeys, is.AuthorizedKeys) {
		d = append(d, fmt.Sprintf("authorized keys: %d -> %d", len(was.AuthorizedKeys), len(is.AuthorizedKeys)))
	}
	d.add("unlock root", fmt.Sprint(was.UnlockRoot), fmt.Sprint(is.UnlockRoot))
	d.add("reboot after", rebootText(was.RebootAfter), rebootText(is.RebootAfter))
	d.add("write limit", was.WriteLimit, is.WriteLimit)
	d.add("peers", string(was.Peers.Effective()), string(is.Peers.Effective()))
	d.add("share", shareText(was.Share), shareText(is.Share))
	d.add("cache", string(was.Cache.Effective()), string(is.Cache.Effective()))
	d.add("offline", offlineText(was.Offline), offlineText(is.Offline))
	d.add("secrets", string(was.Secrets.Effective()), string(is.Secrets.Effective()))
	d.add("cache size", shareText(was.CacheSize), shareText(is.CacheSize))
	for _, name := range []string{fleet.SettingPower, fleet.SettingHours, fleet.SettingSweep} {
		d.add(name, settingText(was, name), settingText(is, name))
	}
	before := was.Keeping.Fields()
	for i, f := range is.Keeping.Fields() {
		d.add(f.Name, before[i].String(), f.String())
	}
	return d
}

func rebootText(d time.Duration) string {
	switch {
	case d < 0:
		return "never"
	case d == 0:
		return "the default"
	}
	return d.String()
}

func shareText(n int64) string {
	if n == 0 {
		return "the default"
	}
	return fleet.SizeText(n)
}

// offlineText is whether nodes may boot without a server, as the flag has it.
func offlineText(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}
