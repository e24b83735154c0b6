package registry

import (
	"database/sql"
	"errors"
	"net/netip"
	"strings"

	"pando/internal/fleet"
)

func scanNode(s scanner) (fleet.Node, error) {
	var n fleet.Node
	var labels, address, args, overrides string
	var macs sql.NullString
	var created, seen int64
	err := s.Scan(
		&n.Name, &n.State, &n.Group, &labels, &address, &n.Version, &args, &n.UUID, &n.Serial, &created, &seen,
		&overrides, &n.TPMKey, &n.SerialSeen, &macs,
	)
	if err != nil {
		return n, err
	}
	n.Follow = n.Version.IsTag()
	n.Created, n.Seen = unstamp(created), unstamp(seen)
	n.Address, err = parseAddr(address)
	return n, errors.Join(err, addMACs(&n, strings.Fields(macs.String)), unpack(labels, &n.Labels),
		unpack(args, &n.KernelArgs), unpack(overrides, &n.Settings))
}

// addMACs adds MACs in the format of nodeColumns to a node.
func addMACs(n *fleet.Node, texts []string) error {
	for _, text := range texts {
		text, claimed := strings.CutSuffix(text, claimedMark)
		text, learned := strings.CutSuffix(text, learnedMark)
		mac, err := fleet.ParseMAC(text)
		if err != nil {
			return err
		}
		if n.MACs = append(n.MACs, mac); learned || claimed {
			n.Learned = append(n.Learned, mac)
		}
		if claimed {
			n.Claimed = append(n.Claimed, mac)
		}
	}
	return nil
}

// addrText returns an address as text, "" for the zero address.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func parseAddr(s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	return netip.ParseAddr(s)
}
