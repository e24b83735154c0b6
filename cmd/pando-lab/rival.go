package main

import (
	"context"

	"pando/internal/bench"
)

// rivalNodes is how many nodes a rival is measured with. It sends each node all that the node asks for, so more of them
// take as much longer as there are more, and what that would be can be computed.
const rivalNodes = 10

// rivals are other ways to the same root: by programs that people use, on the same links, with the same reads.
// Their costs are of W, like ours.
func rivals() []system {
	return []system{
		{
			name:     "nfs",
			what:     "nfs-ganesha and libnfs, NFS 4, files",
			programs: []string{"ganesha.nfsd"},
			helper:   "nfsread",
			most:     rivalNodes,
			cost:     0.5,
			serve:    serveNFS,
			attach:   func(ctx context.Context, n client) (bench.Root, error) { return n.nfs(ctx) },
		},
		{
			name:     "nbd",
			what:     "nbdkit, the raw image; the lab's own client on the node, whose processor time is not counted",
			programs: []string{"nbdkit"},
			most:     rivalNodes,
			cost:     0.5,
			serve:    serveRawNBD,
			attach:   func(ctx context.Context, n client) (bench.Root, error) { return n.nbd(ctx) },
		},
		{
			name:     "nbd-squash",
			what:     "nbdkit, squashfs-zstd; nbdfuse and squashfuse on the node",
			programs: []string{"nbdkit", "nbdfuse", "squashfuse", makesSquashfs},
			most:     rivalNodes,
			cost:     1.2,
			serve:    serveSquashNBD,
			attach:   func(ctx context.Context, n client) (bench.Root, error) { return n.squash(ctx) },
		},
		{
			name:     "torrent",
			what:     "aria2 and opentracker, the image whole as squashfs-zstd by BitTorrent",
			programs: []string{"aria2c", "opentracker", makesSquashfs},
			most:     rivalNodes,
			cost:     0.55,
			shared:   true,
			serve:    serveTorrent,
			attach:   func(ctx context.Context, n client) (bench.Root, error) { return n.bittorrent(ctx) },
		},
	}
}
