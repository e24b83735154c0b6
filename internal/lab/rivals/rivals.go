package rivals

import (
	"context"

	"pando/internal/bench"
)

// rivalNodes is how many nodes a rival is measured with. The server sends each node all that it requests, so the time
// for more nodes can be computed.
const rivalNodes = 10

// All lists other ways to attach the same root: programs that people use, on the same links, with the same reads. Their
// costs are per byte of what a boot reads (W), like Pando's.
func All() []bench.System {
	return []bench.System{
		{
			Name:     "nfs",
			What:     "nfs-ganesha and libnfs, NFS 4, files",
			Programs: []string{"ganesha.nfsd"},
			Helper:   "nfsread",
			Most:     rivalNodes,
			Cost:     0.5,
			Serve:    serveNFS,
			Attach:   func(ctx context.Context, n bench.Client) (bench.Root, error) { return attachNFS(ctx, n) },
		},
		{
			Name:     "nbd",
			What:     "nbdkit, the raw image; the lab's own client on the node, whose processor time is not counted",
			Programs: []string{"nbdkit"},
			Most:     rivalNodes,
			Cost:     0.5,
			Serve:    serveRawNBD,
			Attach:   func(ctx context.Context, n bench.Client) (bench.Root, error) { return attachNBD(ctx, n) },
		},
		{
			Name:     "nbd-squash",
			What:     "nbdkit, squashfs-zstd; nbdfuse and squashfuse on the node",
			Programs: []string{"nbdkit", "nbdfuse", "squashfuse", bench.MakesSquashfs},
			Most:     rivalNodes,
			Cost:     1.2,
			Serve:    serveSquashNBD,
			Attach:   func(ctx context.Context, n bench.Client) (bench.Root, error) { return attachSquashfs(ctx, n) },
		},
		{
			Name:     "torrent",
			What:     "aria2 and opentracker, the image whole as squashfs-zstd by BitTorrent",
			Programs: []string{"aria2c", "opentracker", bench.MakesSquashfs},
			Most:     rivalNodes,
			Cost:     0.55,
			Shared:   true,
			Serve:    serveTorrent,
			Attach:   func(ctx context.Context, n bench.Client) (bench.Root, error) { return attachTorrent(ctx, n) },
		},
	}
}
