package main

import (
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/fleet"
)

// keepingFlags are the flags of what nodes keep and mount.
type keepingFlags struct {
	of    *cobra.Command
	texts map[string]*string
	lists map[string]*[]string
	bare  bool // nothing is laid over the root
}

const noExtend = "no-extend"

// keepingHelp says what each setting is, and calls the flag of a list as one of its items.
var keepingHelp = map[string]struct{ flag, help string }{
	fleet.SettingWriteLayer: {
		"write-layer",
		"what takes writes to the root: tmpfs (memory), zram (compressed memory), 'disk wipe' or 'disk keep' for " +
			"a partition of the node called " +
			fleet.WritePartition,
	},
	fleet.SettingStateOn: {
		"state-on",
		"where persistent directories are kept: 'nfs SERVER:/DIR', 'volume SIZE' for one that the server has, " +
			"'directory /DIR', or 'disk' for a partition of the " +
			"node called " + fleet.StatePartition + "; empty: nowhere",
	},
	fleet.SettingPersist: {
		"persist",
		"directory, or file:/PATH, that outlives reboots and image changes; one empty: none",
	},
	fleet.SettingMounts: {
		"mount",
		"file system to mount, as a line of fstab: 'WHAT WHERE TYPE [OPTIONS]'; one empty: none",
	},
	fleet.SettingSwap: {
		"swap",
		"swap space: none, zram (compressed memory), disk for a partition called " + fleet.SwapPartition +
			", or 'volume SIZE' for one that the server has: while that is away, what was swapped out stands still",
	},
	fleet.SettingUsers: {
		"user",
		"local user, 'NAME uid=2000 [groups=A,B] [shell=/bin/bash] [home=/DIR]', or 'group NAME gid=3000'; one " +
			"empty: none",
	},
	fleet.SettingUserKeys: {"user-key", "ssh key of a user, 'NAME ssh-ed25519 AAAA...'; one empty: none"},
	fleet.SettingExtensions: {
		"extend",
		"extension of /usr and /opt, NAME, NAME:TAG or NAME@sha256:..., which running nodes get at once; one " +
			"empty: none",
	},
	fleet.SettingSysctl: {
		"sysctl",
		"setting of the kernel, KEY=VALUE, after what nodes have by default; one empty: none",
	},
}

func (k *keepingFlags) add(c *cobra.Command) {
	k.of, k.texts, k.lists = c, map[string]*string{}, map[string]*[]string{}
	for _, f := range new(fleet.Keeping).Fields() {
		h := keepingHelp[f.Name]
		if f.Text != nil {
			k.texts[f.Name] = c.Flags().String(h.flag, "", h.help)
		} else {
			k.lists[f.Name] = c.Flags().StringArray(h.flag, nil, h.help)
		}
	}
	c.Flags().BoolVar(&k.bare, noExtend, false, "no extensions")
	c.MarkFlagsMutuallyExclusive(noExtend, keepingHelp[fleet.SettingExtensions].flag)
}

// given are the settings whose flags were given.
func (k *keepingFlags) given() fleet.Keeping {
	var out fleet.Keeping
	for _, f := range out.Fields() {
		switch {
		case !k.of.Flags().Changed(keepingHelp[f.Name].flag):
		case f.Text != nil:
			*f.Text = k.texts[f.Name]
		default:
			list := notEmpty(*k.lists[f.Name])
			*f.List = &list
		}
	}
	if k.bare {
		out.Extensions = &[]string{}
	}
	return out
}

// keepingPairs are the settings for people, those that were said.
func keepingPairs(k fleet.Keeping) []string {
	var out []string
	for _, f := range k.Fields() {
		out = append(out, strings.ReplaceAll(f.Name, "_", " "), strings.ReplaceAll(f.String(), ", ", "\n\t"))
	}
	return append(out, "note", swapNote(k.SwapText()))
}

// swapNote says what swap space costs that is on the server, "" for any other.
func swapNote(text string) string {
	if s, err := fleet.ParseSwap(text); err != nil || s.Kind != fleet.SwapVolume {
		return ""
	}
	return "while the server is away, programs stand still whose memory is in its swap space"
}
