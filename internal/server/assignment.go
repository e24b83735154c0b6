package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/server/logs"
)

// assign makes the signed assignment of a boot: what it began with, not what its group desires by now, because
// kernel and modules of the booted version belong to its root.
func (s *Server) assign(
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
	over, lacks, err := s.overBoot(ctx, group, b.Version)
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
		Format: 1, Boot: b.ID, Node: node.Name, Group: group.Name, Image: b.Image, Version: b.Version, Issued: s.now().UTC(),
		Servers:  append([]string{s.ports.DataURL(at)}, s.cfg.Servers...),
		Stores:   s.places(),
		Files:    slices.Concat(public, logs.ConsoleFiles(at, s.netconsolePort()), sends, state),
		LockRoot: !fleet.ValueOf(group.UnlockRoot), WriteLimit: fleet.ValueOf(group.WriteLimit), WriteLayer: group.WriteLayerText(),
		RebootAfter: s.planner.RebootAfter(group), Pack: pack, Swarm: swarmOf(node, group), Share: fleet.ValueOf(group.Share),
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
