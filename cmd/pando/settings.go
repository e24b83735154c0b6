package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/fleet"
)

// settingFlags are the flags of what a group says of its nodes, and a node of itself.
type settingFlags struct {
	keys              []string
	unlockRoot        bool
	rebootAfter       time.Duration
	writeLimit, peers string
	share             *quantity
	cache             string
	cacheSize         *quantity
	offline           allowed
	secrets           string
	power, hours      string
	sweep             allowed
	keeping           keepingFlags
}

func (f *settingFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.share, f.cacheSize = newSize(0), newSize(0)
	fl.StringArrayVar(
		&f.keys,
		"authorized-keys",
		nil,
		"file of OpenSSH public keys of root, or one key; one empty: none",
	)
	fl.BoolVar(&f.unlockRoot, "unlock-root", false, "leave root's password as it is in the image")
	fl.DurationVar(
		&f.rebootAfter,
		"reboot-after",
		0,
		"reboot a node that is stuck in its boot this long; 0: the server's default; negative, such as -1s: never",
	)
	fl.StringVar(&f.writeLimit, "write-limit", "", "memory for what a node writes, such as 2G or 50%")
	fl.StringVar(
		&f.peers,
		"peers",
		string(fleet.PeersOn),
		"whether nodes give each other what they have: on, off, or rack for those of the same place only",
	)
	fl.StringVar(
		&f.cache,
		"cache",
		string(fleet.CacheNone),
		"where nodes keep what they fetched: none, ram, or disk for one prepared by 'pando node cache'",
	)
	fl.Var(
		f.cacheSize,
		"cache-size",
		"bytes of the cache, such as 8GB; 0B: the default, 8GB of a disk or 64MB of memory",
	)
	fl.Var(
		&f.offline,
		"offline",
		"allow or deny: whether a node boots from its disk what it booted last, when no server answers (default deny)",
	)
	fl.StringVar(
		&f.secrets,
		"secrets",
		string(fleet.SecretsMAC),
		"what a boot has to show before it gets secrets: mac, approve-each-boot or tpm; with ,wait it waits until "+
			"it has",
	)
	fl.StringVar(
		&f.power,
		"power",
		"",
		"how nodes are switched: wol, wol://BROADCAST, redfish://USER@ADDRESS, ipmi://USER@ADDRESS, command:NAME "+
			"or none (default wol)",
	)
	fl.StringVar(
		&f.hours,
		"hours",
		"",
		"when nodes are on, such as 'Mon-Fri 07:45-22:00; 2026-12-24 off; Europe/Berlin'; one empty: never switched",
	)
	fl.Var(
		&f.sweep,
		"sweep",
		"allow or deny: whether the server wakes what a power cut took, when it is back itself (default deny)",
	)
	f.keeping.add(c)
	fl.Var(
		f.share,
		"share",
		"memory of a node for its boot pack, which its peers are served from too, such as 64MB; 0B: as much as "+
			"its memory allows",
	)
}

// overrides are the settings whose flags were given.
func (f *settingFlags) overrides(given func(string) bool) (fleet.Overrides, error) {
	var o fleet.Overrides
	if given("authorized-keys") {
		keys, err := readKeys(f.keys)
		if err != nil {
			return o, err
		}
		o.AuthorizedKeys = &keys
	}
	if given("unlock-root") {
		o.UnlockRoot = &f.unlockRoot
	}
	if given("reboot-after") {
		o.RebootAfter = &f.rebootAfter
	}
	if given("write-limit") {
		o.WriteLimit = &f.writeLimit
	}
	if given("peers") {
		o.Peers = (*fleet.PeerPolicy)(&f.peers)
	}
	if given("share") {
		o.Share = &f.share.n
	}
	if given("cache") {
		o.Cache = (*fleet.CachePolicy)(&f.cache)
	}
	if given("cache-size") {
		o.CacheSize = &f.cacheSize.n
	}
	if given("offline") {
		o.Offline = (*bool)(&f.offline)
	}
	if given("secrets") {
		o.Secrets = (*fleet.SecretPolicy)(&f.secrets)
	}
	if given("power") {
		o.Power = (*fleet.Power)(&f.power)
	}
	if given("hours") {
		o.Hours = (*fleet.Hours)(&f.hours)
	}
	if given("sweep") {
		o.Sweep = (*bool)(&f.sweep)
	}
	o.Keeping = f.keeping.given()
	return o, nil
}

// readKeys takes keys as they are, and the lines of those that are files.
func readKeys(texts []string) ([]string, error) {
	keys := []string{}
	for _, t := range notEmpty(texts) {
		if strings.HasPrefix(t, "ssh-") || strings.HasPrefix(t, "ecdsa-") || strings.HasPrefix(t, "sk-") {
			keys = append(keys, t)
			continue
		}
		b, err := os.ReadFile(t)
		if err != nil {
			return nil, withHint(
				usagef("authorized key: %w", err),
				"give a public key such as 'ssh-ed25519 AAAA...', or a file that holds some",
			)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				keys = append(keys, line)
			}
		}
	}
	return keys, nil
}

// allowed is a flag's value that is allow or deny.
type allowed bool

// Set reads it.
func (v *allowed) Set(s string) error {
	if s != "allow" && s != "deny" {
		return fmt.Errorf("%q: want allow or deny", s)
	}
	*v = s == "allow"
	return nil
}

// String is the value as it would be typed; that of the default is told by the flag's description.
func (v *allowed) String() string {
	if *v {
		return "allow"
	}
	return ""
}

// Type names the kind in help and documentation.
func (v *allowed) Type() string { return "allow|deny" }

// offlineText is whether nodes may boot without a server, as the flag has it.
func offlineText(yes bool) string {
	if yes {
		return "allow"
	}
	return "deny"
}
