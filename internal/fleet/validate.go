package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Words that stand for sets of nodes after '@', and so cannot name a group.
const (
	SetAll        = "all"        // every node
	SetDiscovered = "discovered" // every node that nobody adopted
)

var label = Spelling{Capitals: true, Inner: "._/-", Max: 64}

// hostLabel defines one label of a host name, the part between dots.
var hostLabel = Spelling{Inner: "-", Max: 63}

// isHostName reports whether the kernel and DNS accept s as a host name; node names are host names.
func isHostName(s string) bool {
	for l := range strings.SplitSeq(s, ".") {
		if !hostLabel.Allows(l) {
			return false
		}
	}
	return true
}

// ValidNodeName checks the name of a node, which is also its host name: at most 64 of a-z, 0-9, dash and dot.
func ValidNodeName(s string) error {
	if len(s) > 64 || !isHostName(s) {
		return fmt.Errorf("node name %q: use a host name: 1 to 64 of a-z 0-9 - and dots between labels", s)
	}
	return nil
}

// ValidLabel checks one label of a node.
func ValidLabel(key, value string) error {
	if !label.Allows(key) {
		return fmt.Errorf("label %q: use 1 to 64 of A-Z a-z 0-9 . _ / - with a letter or digit at both ends", key)
	}
	if len(value) > 256 || strings.ContainsAny(value, ",\"\n\r\t\x00") {
		return fmt.Errorf(
			"label %s: value %q: use at most 256 characters without commas, quotes and line breaks",
			key,
			value,
		)
	}
	return nil
}

// ValidKernelArgs checks kernel arguments.
func ValidKernelArgs(args []string) error {
	for _, a := range args {
		// iPXE expands ${...}; blanks and quotes would split or join arguments.
		if a == "" || len(a) > 512 || strings.ContainsAny(a, " \t\r\n\"'$`\\") || !printable(a) {
			return fmt.Errorf(
				"kernel argument %q: use one argument of printable characters without blanks, quotes, $ and backslash",
				a,
			)
		}
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ValidAddress checks a node's address: IPv4 unicast.
func ValidAddress(a netip.Addr) error {
	if !a.Is4() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() ||
		a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("address %s is not an IPv4 address of one machine", a)
	}
	return nil
}

// Validate returns an error for an invalid field of a node.
func (n Node) Validate() error {
	if err := ValidNodeName(n.Name); err != nil {
		return err
	}
	if n.State != Discovered && n.State != Adopted {
		return fmt.Errorf("node %s: state %q is not %s or %s", n.Name, n.State, Discovered, Adopted)
	}
	seen := make(map[MAC]bool, len(n.MACs))
	for _, m := range n.MACs {
		if !m.OfOne() {
			return fmt.Errorf("node %s: %s is not the MAC address of one machine", n.Name, m)
		}
		if seen[m] {
			return fmt.Errorf("node %s: MAC %s is given twice", n.Name, m)
		}
		seen[m] = true
	}
	for k, v := range n.Labels {
		if err := ValidLabel(k, v); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	if n.Address.IsValid() {
		if err := ValidAddress(n.Address); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	if err := validWanted(n.Version, n.Follow); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if err := ValidKernelArgs(n.KernelArgs); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	if len(n.Serial) > 128 || strings.ContainsAny(n.Serial, "\r\n\t\x00") {
		return fmt.Errorf("node %s: serial number %.40q: use at most 128 characters on one line", n.Name, n.Serial)
	}
	if err := n.Settings.validOwn(); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// Validate returns an error for an invalid field of a group.
func (g Group) Validate() error {
	if err := ValidName("group", g.Name); err != nil {
		return err
	}
	if g.Name == SetAll || g.Name == SetDiscovered {
		return fmt.Errorf("group name %q means a set of nodes already: use another", g.Name)
	}
	if err := validWanted(g.Image, g.Follow); err != nil {
		return fmt.Errorf("group %s: %w", g.Name, err)
	}
	if err := errors.Join(ValidKernelArgs(g.KernelArgs), g.Settings.validate(), g.Settings.together()); err != nil {
		return fmt.Errorf("group %s: %w", g.Name, err)
	}
	return nil
}

// Bounds of a cache's size, in bytes. Memory is locked; a disk's tables are read at each boot.
const (
	MinCacheRAM  int64 = 1e6
	MaxCacheRAM  int64 = 4e9
	MinCacheDisk int64 = 64e6
	MaxCacheDisk int64 = 64e9
)

func validCache(s Settings) error {
	least, most := MinCacheDisk, MaxCacheDisk
	kind, size := ValueOf(s.Cache).Effective(), ValueOf(s.CacheSize)
	if kind == CacheRAM {
		least, most = MinCacheRAM, MaxCacheRAM
	}
	if size != 0 && (size < least || size > most) {
		return fmt.Errorf(
			"cache size %d bytes: use %d to %d MB for %s, or 0 for the default",
			size,
			least/1e6,
			most/1e6,
			kind,
		)
	}
	return nil
}

func validOffline(s Settings) error {
	if ValueOf(s.Offline) && ValueOf(s.Cache) != CacheDisk {
		return errors.New("boots without a server need a cache on a disk: --cache disk")
	}
	return nil
}

func validReboot(after time.Duration) error {
	if after > 0 && after < 30*time.Second {
		return fmt.Errorf("reboot after %s: use 30s or more, 0 for the default, or less than 0 for never", after)
	}
	return nil
}

func validHours(h Hours) error {
	if h == "" {
		return nil
	}
	_, err := h.Parse()
	return err
}

// isWriteLimit reports whether s is a share of memory, 1% to 100%, or a size in bytes, k, m or g.
func isWriteLimit(s string) bool {
	if share, ok := strings.CutSuffix(s, "%"); ok {
		return isNumber(share, 2) || share == "100"
	}
	if n := len(s); n > 0 && strings.IndexByte("kKmMgG", s[n-1]) >= 0 {
		s = s[:n-1]
	}
	return isNumber(s, 13)
}

func validWriteLimit(limit string) error {
	if limit != "" && !isWriteLimit(limit) {
		return fmt.Errorf("write limit %q: use a share of memory such as 50%%, or a size such as 2g", limit)
	}
	return nil
}

func validRef(r Ref) error {
	if r == "" {
		return nil
	}
	_, _, _, err := r.Split()
	return err
}
