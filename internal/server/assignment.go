package server

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/server/logs"
)

// assign makes the signed assignment of a boot: what it began with, not what its group desires by now, because
// kernel and modules of the booted version belong to its root.
func (s *Server) assign(
	ctx context.Context,
	b registry.Boot,
	n nodeConfig,
	set configSet,
	pack *fleet.PackRef,
	at netip.Addr,
) (bytes, signature []byte, err error) {
	node, group := n.node, n.group
	public, _ := set.parts()
	sends, _, err := s.journals.Files(b.ID, at)
	if err != nil {
		return nil, nil, err
	}
	over, lacks, err := s.overBoot(ctx, group, b.Version)
	if err != nil {
		return nil, nil, err
	}
	state, err := s.state.Files(ctx, b, node, group)
	if err != nil {
		return nil, nil, err
	}
	problems := slices.Clone(set.problems)
	for _, l := range lacks {
		problems = append(problems, l.Error())
	}
	a := fleet.Assignment{
		Format: 1, Boot: b.ID, Node: node.Name, Group: group.Name, Image: b.Image, Version: b.Version, Issued: s.now().UTC(),
		Servers:  append([]string{s.dataURL(at)}, s.cfg.Servers...),
		Stores:   s.places(),
		Files:    slices.Concat(public, logs.ConsoleFiles(at, s.netconsolePort()), sends, state),
		LockRoot: !fleet.ValueOf(group.UnlockRoot), WriteLimit: fleet.ValueOf(group.WriteLimit), WriteLayer: group.WriteLayerText(),
		RebootAfter: s.rebootAfter(group), Pack: pack, Swarm: swarmOf(node, group), Share: fleet.ValueOf(group.Share),
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

func (s *Server) rebootAfter(g fleet.Group) time.Duration {
	return cmp.Or(fleet.ValueOf(g.RebootAfter), s.cfg.RebootAfter)
}

// swarmOf is how a node takes part in the swarm of what it boots, nil when it shall not.
func swarmOf(n fleet.Node, g fleet.Group) *fleet.Swarm {
	policy := fleet.ValueOf(g.Peers).Effective()
	if policy == fleet.PeersOff {
		return nil
	}
	return &fleet.Swarm{Place: n.Place(), Near: policy == fleet.PeersRack}
}

// places are the base URLs of objects that nodes shall ask before this server.
func (s *Server) places() []string {
	if s.cfg.Direct == nil {
		return nil
	}
	if u := s.cfg.Direct.NodeURL(); u != "" {
		return []string{u}
	}
	return nil
}
