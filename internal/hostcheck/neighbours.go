package hostcheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
)

// neighbourBound is the file below /proc with the maximum number of neighbours (gc_thresh3, arp(7)).
const neighbourBound = "sys/net/ipv4/neigh/default/gc_thresh3"

// checkNeighbours compares the number of nodes with the kernel's maximum number of neighbours. Packets to further nodes
// are dropped, which only the kernel log shows, and a boot storm then takes many times as long.
func checkNeighbours(env *cmdenv.Env, ctx context.Context, o Options) []Finding {
	b, err := os.ReadFile(filepath.Join(o.Proc, neighbourBound))
	if err != nil {
		return found(note, "", "cannot see how many neighbours the kernel has room for: %v", err)
	}
	room, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return found(note, "", "cannot see how many neighbours the kernel has room for: %v", err)
	}
	c := api.OverSocket(cmdenv.SocketPath(o.Data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, err := c.Nodes(ctx, "")
	if err != nil { // the check of NICs reports this error
		return found(Fine, "", "the kernel has room for %d neighbours", room)
	}
	return neighbourFindings(room, len(nodes))
}

// neighbourFindings leaves a quarter of the neighbours to machines that are not nodes.
func neighbourFindings(room, nodes int) []Finding {
	if nodes <= room/4*3 {
		return found(Fine, "", "the kernel has room for %d neighbours (%d nodes)", room, nodes)
	}
	want := 4 * nodes
	return found(
		Warning,
		fmt.Sprintf(
			"echo net.ipv4.neigh.default.gc_thresh3=%d > /etc/sysctl.d/pando.conf; echo "+
				"net.ipv4.neigh.default.gc_thresh2=%d >> /etc/sysctl.d/pando.conf; "+
				"sysctl --system (nodes behind a router do not count)",
			want,
			want/2,
		),
		"the kernel has room for %d neighbours, and there are %d nodes: packets to some are dropped when many "+
			"boot at once",
		room,
		nodes,
	)
}
