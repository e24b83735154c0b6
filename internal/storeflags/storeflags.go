package storeflags

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pando/internal/exitcode"
	"pando/internal/output"
	"pando/internal/server"
	"pando/internal/store"
	"pando/internal/store/s3"
)

// Flags say where the store is. `serve` and `up` save their values in the data directory, so that `image build` and
// other commands on this machine use the same store.
type Flags struct {
	url, endpoint, region, direct, nodeEndpoint string
	cache                                       *output.Quantity
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(
		&f.url,
		"store",
		"",
		"where images are kept: s3://BUCKET/PREFIX, or dir for the data directory (default: as before, at first dir); "+
			"keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials",
	)
	fl.StringVar(
		&f.endpoint,
		"store-endpoint",
		"",
		"base URL of the S3 service, such as http://10.0.0.5:7480 (environment: AWS_ENDPOINT_URL)",
	)
	fl.StringVar(&f.region, "store-region", "", "region of the bucket (environment: AWS_REGION)")
	fl.StringVar(
		&f.direct,
		"store-direct",
		"",
		"nodes read objects from the bucket: public (anybody may read it), signed (by URLs that the server signs) "+
			"or off (default off)",
	)
	fl.StringVar(
		&f.nodeEndpoint,
		"store-node-endpoint",
		"",
		"base URL of the S3 service as nodes reach it, http:// (default: --store-endpoint)",
	)
	f.cache = output.NewSize(0)
	fl.Var(f.cache, "store-cache", "most bytes of a bucket's objects that are kept beside the server (default 20GB)")
}

// directoryStore is the value of --store that goes back from a bucket to the data directory.
const directoryStore = "dir"

// bucketFile returns the path of the file that names the bucket of a data directory.
func bucketFile(data string) string { return filepath.Join(data, "bucket.json") }

// Open opens the store that the flags or an earlier start named. b is nil if the store is in the data directory.
func (f *Flags) Open(ctx context.Context, data string) (d *store.Dir, b *s3.Bucket, err error) {
	if f.url == "" || f.url == directoryStore {
		if f.endpoint != "" || f.region != "" || f.direct != "" || f.nodeEndpoint != "" || f.cache.N != 0 {
			return nil, nil, exitcode.WithHint(
				exitcode.Usagef("--store-endpoint and the like are for a store in a bucket"),
				"say --store s3://BUCKET/PREFIX too",
			)
		}
		if f.url == directoryStore {
			if err := os.Remove(bucketFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
		}
		return openStore(ctx, data)
	}
	if err := server.CheckFree(data); err != nil { // the settings of a running server must not change
		return nil, nil, err
	}
	c := s3.Config{
		URL:          f.url,
		Endpoint:     f.endpoint,
		Region:       f.region,
		Direct:       f.direct,
		NodeEndpoint: f.nodeEndpoint,
		Cache:        f.cache.N,
	}
	c = c.FromEnvironment()
	if err := c.Validate(); err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	if d, b, err = openBucket(ctx, data, c); err != nil {
		return nil, nil, err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	return d, b, store.WriteFile(bucketFile(data), append(text, '\n'), 0o644)
}

// openStore opens the store of a data directory or of the bucket that it names.
func openStore(ctx context.Context, data string) (*store.Dir, *s3.Bucket, error) {
	c, err := s3.Load(bucketFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		d, err := store.OpenDir(filepath.Join(data, "store"))
		return d, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	return openBucket(ctx, data, c)
}

// openBucket opens a bucket. Its cache has its own directory, because the cache removes objects and a store in the data
// directory must keep them.
func openBucket(ctx context.Context, data string, c s3.Config) (*store.Dir, *s3.Bucket, error) {
	b, err := s3.Open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	d, err := store.OpenCache(filepath.Join(data, "store-cache"), b, cmp.Or(c.Cache, s3.DefaultCache))
	return d, b, err
}

// OpenDir is openStore for callers that do not need the bucket.
func OpenDir(ctx context.Context, data string) (*store.Dir, error) {
	d, _, err := openStore(ctx, data)
	return d, err
}
