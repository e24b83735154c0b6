package kmod

import (
	"strings"

	"pando/internal/fleet"
)

// CommandLine is what init reads from the kernel's command line. It contains no secret.
type CommandLine struct {
	Boot      fleet.BootID        // pando.boot=
	MAC       fleet.MAC           // BOOTIF=: the adapter that the firmware booted from
	Blacklist map[string]bool     // modprobe.blacklist=: modules never to load
	Options   map[string][]string // module.option=value, by module name, as "option=value"
	Init      string              // init=: the image's init, "" to look for it
}

// ParseCommandLine parses /proc/cmdline. It ignores unknown words, and known words with an invalid value, so that a
// node boots without them if it can.
func ParseCommandLine(line string) CommandLine {
	c := CommandLine{Blacklist: map[string]bool{}, Options: map[string][]string{}}
	for _, word := range splitWords(line) {
		key, value, has := strings.Cut(word, "=")
		if !has {
			continue
		}
		switch key {
		case "pando.boot":
			c.Boot = fleet.BootID(value)
		case "BOOTIF":
			c.MAC, _ = fleet.ParseMAC(value)
		case "init":
			c.Init = value
		case "modprobe.blacklist":
			for _, m := range strings.Split(value, ",") {
				c.Blacklist[moduleName(m)] = true
			}
		default:
			if module, option, ok := strings.Cut(key, "."); ok && module != "" && option != "" {
				name := moduleName(module)
				c.Options[name] = append(c.Options[name], option+"="+value)
			}
		}
	}
	return c
}

// splitWords splits at white space outside of double quotes, and drops the quotes, as the kernel does.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	quoted, started := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case !quoted && strings.ContainsRune(" \t\n\r\v\f\x00", r):
			if started {
				words = append(words, word.String())
				word.Reset()
			}
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		words = append(words, word.String())
	}
	return words
}

// moduleName returns the kernel's spelling of a module's name.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }
