package s3

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"pando/internal/chunk"
	"pando/internal/store"
)

// openForNodes determines the IP address by which nodes reach the service, because nodes resolve no names.
func (b *Bucket) openForNodes(ctx context.Context, keys *credentials.Credentials) error {
	u, err := endpoint(cmp.Or(b.cfg.NodeEndpoint, b.cfg.Endpoint))
	if err != nil {
		return err
	}
	if u.Scheme != "http" {
		return fmt.Errorf(
			"endpoint %s: nodes read objects by plain HTTP, and verify them; name an http:// one with "+
				"--store-node-endpoint, "+
				"or say --store-direct off",
			u,
		)
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "80")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", u, err)
		}
		addr = addrs[0]
	}
	b.cfg.NodeEndpoint = "http://" + net.JoinHostPort(addr.Unmap().String(), port)
	b.nodes, err = connect(b.cfg, b.cfg.NodeEndpoint, keys)
	return err
}

// NodeURL returns the base URL of the objects in a public bucket; "" if nodes do not use it.
func (b *Bucket) NodeURL() string {
	if b.cfg.Direct != Public {
		return ""
	}
	return b.cfg.NodeEndpoint + "/" + b.bucket + "/" + strings.TrimSuffix(b.prefix+"objects", "/")
}

// signedFor is how long a signed URL is valid. A node follows it at once.
const signedFor = 15 * time.Minute

// Sign returns a URL by which a node can get an object for some minutes; "" if the node gets it from the server.
func (b *Bucket) Sign(ctx context.Context, id chunk.ID) (string, error) {
	if b.cfg.Direct != Signed {
		return "", nil
	}
	u, err := b.nodes.PresignedGetObject(ctx, b.bucket, b.prefix+store.ObjectName(id), signedFor, url.Values{})
	if err != nil {
		return "", fmt.Errorf("sign a URL in %s: %w", b.cfg.URL, err)
	}
	return u.String(), nil
}
