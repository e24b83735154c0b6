package boots

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/bootplan"
	"pando/internal/endpoint"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/versions"
)

// assigner makes assignments.
type assigner struct {
	registry Registry
	versions *versions.Cache
	planner  *bootplan.Planner
	ports    *endpoint.Ports
	keys     identity.Keys

	packs      packSource
	recordings recordingSource
	journals   journalSource

	stateFiles   func(context.Context, registry.Boot, fleet.Node, fleet.Group) ([]fleet.File, error)
	consoleFiles func(server netip.Addr) []fleet.File
	stores       func() []string
	servers      []string
	now          func() time.Time
}

// Assign returns the signed assignment of a boot. It has the version that the boot began with, even if the group runs
// another one by now, because the booted kernel and modules belong to that version.
func (s *assigner) Assign(
	ctx context.Context,
	b registry.Boot,
	n nodeconfig.Node,
	set nodeconfig.Set,
	pack *fleet.PackRef,
	at netip.Addr,
) (bytes, signature []byte, err error) {
	node, group := n.Node, n.Group
	public, _ := set.Parts()
	sends, _, err := s.journals.Files(b.ID, at)
	if err != nil {
		return nil, nil, err
	}
	over, lacks, err := s.Extensions(ctx, group, b.Version)
	if err != nil {
		return nil, nil, err
	}
	state, err := s.stateFiles(ctx, b, node, group)
	if err != nil {
		return nil, nil, err
	}
	problems := slices.Clone(set.Problems)
	for _, l := range lacks {
		problems = append(problems, l.Error())
	}
	a := fleet.Assignment{
		Format: 1, Boot: b.ID, Node: node.Name, Group: group.Name, Image: b.Image, Version: b.Version,
		Issued:  s.now().UTC(),
		Servers: append([]string{s.ports.DataURL(at)}, s.servers...),
		Stores:  s.stores(),
		Files:   slices.Concat(public, s.consoleFiles(at), sends, state),
		LockRoot: !fleet.ValueOf(
			group.UnlockRoot,
		), WriteLimit: fleet.ValueOf(group.WriteLimit), WriteLayer: group.WriteLayerText(),
		RebootAfter: s.planner.RebootAfter(
			group,
		), Pack: pack, Swarm: swarmOf(node, group),
		Cache: group.CacheOf(), Offline: fleet.ValueOf(group.Offline),
		RevokedKeys: s.keys.Ring.Trust().Revoked, RecordUntil: s.recordings.Until(node.Name),
		Extensions: over, ExtensionPacks: s.packs.ForExtensions(over), Problems: problems,
	}
	bytes, err = json.Marshal(a)
	if err != nil {
		return nil, nil, fmt.Errorf("encode assignment of %s: %w", node.Name, err)
	}
	return bytes, ed25519.Sign(s.keys.Server, append([]byte(api.AssignmentContext), bytes...)), nil
}

// Extensions returns the extensions of the version that a boot runs, and what is wrong with others of the group.
func (s *assigner) Extensions(
	ctx context.Context,
	g fleet.Group,
	base fleet.Digest,
) (out []fleet.Extension, problems []error, err error) {
	refs := g.ExtensionList()
	if len(refs) == 0 {
		return nil, nil, nil
	}
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		out, problems = s.versions.Over(tx, refs, base)
		return nil
	})
	return out, problems, err
}

// swarmOf returns how a node takes part in the swarm, nil if it does not.
func swarmOf(n fleet.Node, g fleet.Group) *fleet.Swarm {
	policy := fleet.ValueOf(g.Peers).Effective()
	if policy == fleet.PeersOff {
		return nil
	}
	return &fleet.Swarm{Place: n.Place(), LocalOnly: policy == fleet.PeersRack}
}
