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
		&n.Name,
		&n.State,
		&n.Group,
		&labels,
		&address,
		&n.Version,
		&args,
		&n.UUID,
		&n.Serial,
		&created,
		&seen,
		&overrides,
		&n.TPMKey,
		&macs,
	)
	if err != nil {
		return n, err
	}
	n.Follow = n.Version.IsTag()
	n.Created, n.Seen = unstamp(created), unstamp(seen)
	n.Address, err = parseAddr(address)
	for _, m := range strings.Fields(macs.String) {
		mac, e := fleet.ParseMAC(m)
		n.MACs, err = append(n.MACs, mac), errors.Join(err, e)
	}
	return n, errors.Join(err, unpack(labels, &n.Labels), unpack(args, &n.KernelArgs), unpack(overrides, &n.Settings))
}

// addrText is "" for the zero address.
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
