package packs

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/imagefs"
	"pando/internal/registry"
)

// imageSlim answers GET /v1/images/{name}/slim: what boots of a version never read, and what slows its start.
func (a *API) imageSlim(r *http.Request) (any, error) {
	out := api.ImageSlim{Image: r.PathValue("name"), Packages: []api.SlimPackage{}, Places: []api.SlimPackage{}}
	var err error
	if _, out.Version, err = fleetview.VersionParam(r, a.registry, "ref", out.Image); err != nil {
		return nil, err
	}
	m, err := a.maker.store.Manifest(out.Version)
	if err != nil {
		return nil, err
	}
	tree, err := imagefs.OpenTree(r.Context(), a.maker.store, m)
	if err != nil {
		return nil, err
	}
	traces, err := a.maker.measured(registry.Whole(r.Context()), out.Version, m)
	if err != nil {
		return nil, err
	}
	read := map[uint32]bool{}
	for _, t := range traces {
		for _, x := range t.rec.Reads {
			for b := range x.Blocks {
				read[x.Start+b] = true
			}
		}
	}
	out.Boots = len(traces)
	if out.Boots > 0 {
		owners, err := tree.Owners()
		if err != nil {
			return nil, err
		}
		unread(&out, tree.Files(), owners, read)
	}
	took, err := a.unitTimes(r.Context(), out.Version)
	out.Units = slimUnits(tree, took)
	return out, err
}

// unread sums what no boot read, by package, and by directory for files of no package. A package counts only if nothing
// of it was read.
func unread(out *api.ImageSlim, files []imagefs.File, owners map[string]string, read map[uint32]bool) {
	packages, places, used := map[string]api.SlimPackage{}, map[string]api.SlimPackage{}, map[string]bool{}
	add := func(to map[string]api.SlimPackage, name string, size int64) {
		p := to[name]
		to[name] = api.SlimPackage{Name: name, Files: p.Files + 1, Size: p.Size + size}
	}
	for _, f := range files {
		if f.Dir || f.Blocks == 0 {
			continue
		}
		out.Size += f.Size
		touched := false
		for b := range f.Blocks {
			touched = touched || read[f.Start+b]
		}
		owner := owners[f.Path]
		switch {
		case touched:
			used[owner] = true
		case owner == "":
			out.Unread += f.Size
			parts := strings.SplitN(path.Dir("/"+f.Path), "/", 5)
			add(places, strings.Join(parts[:min(4, len(parts))], "/"), f.Size)
		default:
			out.Unread += f.Size
			add(packages, owner, f.Size)
		}
	}
	for name := range used {
		delete(packages, name)
	}
	out.Packages, out.Places = largest(packages), largest(places)
}

func largest(m map[string]api.SlimPackage) []api.SlimPackage {
	out := []api.SlimPackage{}
	for _, p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b api.SlimPackage) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.Name, b.Name))
	})
	return out
}

// unitTimes returns the longest start time of each unit, over the nodes that run a version.
func (a *API) unitTimes(ctx context.Context, v fleet.Digest) (map[string]time.Duration, error) {
	var ids []fleet.BootID
	err := a.registry.View(ctx, func(tx *registry.Tx) error {
		boots, err := tx.LatestBoots()
		for _, b := range boots {
			if b.Version == v {
				ids = append(ids, b.ID)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	progress, err := a.registry.Progress(ctx, ids...)
	out := map[string]time.Duration{}
	for _, p := range progress {
		var status api.NodeStatus
		if len(p.Status) == 0 || json.Unmarshal(p.Status, &status) != nil || status.Systemd == nil {
			continue
		}
		for _, u := range status.Systemd.Units {
			out[u.Unit] = max(out[u.Unit], u.Active-u.Start)
		}
	}
	return out, err
}

// Paths of enabled units, masked units, and generators, which run before all units.
var (
	wantedUnit = regexp.MustCompile(`^(etc|usr/lib|lib)/systemd/system/[^/]+\.(wants|requires)/([^/]+)$`)
	maskedUnit = regexp.MustCompile(`^etc/systemd/system/([^/]+)$`)
	generator  = regexp.MustCompile(`^(etc|usr/lib|usr/local/lib|lib)/systemd/system-generators/([^/]+)$`)
)

// slimUnits lists the enabled units and the generators: first those with advice, then the slowest.
func slimUnits(tree *imagefs.Tree, took map[string]time.Duration) []api.SlimUnit {
	masked, seen := map[string]bool{}, map[string]bool{}
	for _, f := range tree.Files() {
		if p := maskedUnit.FindStringSubmatch(f.Path); p != nil && !f.Dir {
			if to, err := tree.ReadFile(f.Path); err == nil && string(to) == "/dev/null" {
				masked[p[1]] = true
			}
		}
	}
	out := []api.SlimUnit{}
	for _, f := range tree.Files() {
		u := api.SlimUnit{}
		if p := wantedUnit.FindStringSubmatch(f.Path); p != nil {
			u = api.SlimUnit{Name: p[3], Kind: "unit"}
		} else if p := generator.FindStringSubmatch(f.Path); p != nil && !f.Dir {
			u = api.SlimUnit{Name: p[2], Kind: "generator"}
		}
		if u.Name == "" || masked[u.Name] || seen[u.Kind+u.Name] {
			continue
		}
		seen[u.Kind+u.Name] = true
		u.Took, u.Advice = took[u.Name], slowAdvice(u)
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b api.SlimUnit) int {
		return cmp.Or(
			cmp.Compare(min(1, len(b.Advice)), min(1, len(a.Advice))),
			cmp.Compare(b.Took, a.Took),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

// slow lists units and generators that nodes without local disks seldom need.
var slow = []struct {
	name   *regexp.Regexp
	advice string
}{
	{
		regexp.MustCompile(`wait-online`),
		"delays units that want network-online.target; the node's network is up before systemd starts: mask it",
	},
	{
		regexp.MustCompile(
			`^(apt-daily|apt-daily-upgrade|dpkg-db-backup|unattended-upgrades|packagekit|man-db|apt-news|esm-cache)`,
		),
		"maintains packages on a machine that keeps no updates: mask it, update the image instead",
	},
	{
		regexp.MustCompile(
			`^(e2scrub|fstrim|lvm2|mdadm|mdmonitor|multipath|blk-availability|dm-event|smartmontools|smartd|udisks2)|^systemd-(cryptsetup|veritysetup|integritysetup|gpt-auto|growfs)`,
		),
		"is for local disks, which nodes leave alone: mask or remove it",
	},
	{
		regexp.MustCompile(`^(snapd|cloud-|cloud\.|ua-|ubuntu-advantage|pollinate)`),
		"sets a machine up at its first boot, which here is every boot: remove it",
	},
	{regexp.MustCompile(`plymouth`), "a boot splash: it costs more than it is worth where boots are fast; remove it"},
	{
		regexp.MustCompile(`^(ModemManager|bluetooth|cups|avahi-daemon|exim4|postfix)`),
		"starts in every boot: mask it if it is not used",
	},
	{
		regexp.MustCompile(`^systemd-sysv-generator$|^rc-local|^netplan$`),
		"reads old or foreign configuration at every boot: remove its package if there is no such configuration",
	},
}

func slowAdvice(u api.SlimUnit) string {
	for _, s := range slow {
		if s.name.MatchString(u.Name) {
			return s.advice
		}
	}
	if u.Took >= time.Second {
		return "took long on a node: `pando boot show NODE` shows which units waited for it"
	}
	return ""
}
