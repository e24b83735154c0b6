package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"pando/internal/secretfile"
	"pando/internal/store"
)

// Bucket is a store in a bucket. It is safe for concurrent use.
type Bucket struct {
	cfg    Config
	core   minio.Core
	nodes  *minio.Client // signs URLs for nodes
	bucket string
	prefix string

	mu     sync.Mutex
	claims map[string]seenClaim // claims of other owners
}

var _ store.Remote = (*Bucket)(nil)

// answerTime bounds the time until an answer begins. tries is how often a request without an answer is sent, with
// growing pauses.
const (
	answerTime = 30 * time.Second
	tries      = 5
)

// forEver is the Cache-Control header of names that are digests.
const forEver = "public, max-age=31536000, immutable"

// Open checks that the bucket exists and can be read. c must be complete, see Config.FromEnvironment.
func Open(ctx context.Context, c Config) (*Bucket, error) {
	b := &Bucket{cfg: c, claims: map[string]seenClaim{}}
	var err error
	if err = c.Validate(); err != nil {
		return nil, err
	}
	if b.bucket, b.prefix, err = c.Split(); err != nil {
		return nil, err
	}
	if err := checkCredentials(); err != nil {
		return nil, &Error{Store: c.URL, Err: err}
	}
	keys := keychain()
	client, err := connect(c, c.Endpoint, keys)
	if err != nil {
		return nil, err
	}
	b.core = minio.Core{Client: client}
	if c.Direct == Signed || c.Direct == Public {
		if err := b.openForNodes(ctx, keys); err != nil {
			return nil, err
		}
	}
	there, err := client.BucketExists(ctx, b.bucket)
	if err == nil && !there {
		err = errors.New("no such bucket; make it first, and keep its versioning off")
	}
	if err != nil {
		return nil, &Error{Store: c.URL, Err: plain(err)}
	}
	return b, nil
}

// keychain returns the places where S3 clients look for keys: the environment, ~/.aws/credentials, the machine's
// role.
func keychain() *credentials.Credentials {
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}}})
}

// checkCredentials refuses a file of keys that others may read or write, if keys would be taken from it.
func checkCredentials() error {
	if v, err := (&credentials.EnvAWS{}).Retrieve(); err == nil && v.AccessKeyID != "" {
		return nil
	}
	path := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil // without a home nothing is read there
		}
		path = filepath.Join(home, ".aws", "credentials")
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return secretfile.Check(path, info, secretfile.Others)
}

func connect(c Config, base string, keys *credentials.Credentials) (*minio.Client, error) {
	u, err := endpoint(base)
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", c.URL, err)
	}
	transport.ResponseHeaderTimeout = answerTime
	transport.MaxIdleConnsPerHost = 64
	region := c.Region
	if base != "" {
		region = cmp.Or(region, "us-east-1") // the usual region of services without regions
	}
	client, err := minio.New(
		u.Host,
		&minio.Options{Creds: keys, Secure: secure, Region: region, Transport: transport, MaxRetries: tries},
	)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", c.URL, err)
	}
	return client, nil
}

// Name is the URL of the bucket.
func (b *Bucket) Name() string { return b.cfg.URL }

// Get returns the bytes of a name.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, _, _, err := b.core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, plain(err)
	}
	return r, nil
}

// Put writes a name. The service compares the data with an MD5 sum before the name becomes visible.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true, DisableMultipart: true}
	o.DisableContentSha256 = len(data) == 0 // Ceph 16 rejects the signature of an empty stream
	if strings.HasPrefix(name, "objects/") {
		o.CacheControl = forEver
	}
	_, err := b.core.Client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	return plain(err)
}

// Stat describes a name.
func (b *Bucket) Stat(ctx context.Context, name string) (store.RemoteFile, error) {
	info, err := b.core.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
	return store.RemoteFile{Name: name, Size: info.Size, Modified: info.LastModified}, plain(err)
}

// Touch copies a name onto itself within the service. If a service does not renew the time then, Touch writes the
// data again.
func (b *Bucket) Touch(ctx context.Context, name string) error {
	before, err := b.Stat(ctx, name)
	if err != nil {
		return err
	}
	_, err = b.core.Client.CopyObject(
		ctx,
		minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + name, ReplaceMetadata: true,
			UserMetadata: map[string]string{"Content-Type": "application/octet-stream", "Cache-Control": forEver}},
		minio.CopySrcOptions{Bucket: b.bucket, Object: b.prefix + name},
	)
	if err != nil {
		return plain(err)
	}
	if after, err := b.Stat(ctx, name); err != nil || after.Modified.After(before.Modified) {
		return err
	}
	r, err := b.Get(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return b.Put(ctx, name, data)
}

// List calls each for every name that starts with prefix. It holds up to a thousand names in memory.
func (b *Bucket) List(ctx context.Context, prefix string, each func(store.RemoteFile) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // otherwise the client's goroutine waits for a reader
	for o := range b.core.Client.ListObjects(ctx, b.bucket,
		minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list %s in %s: %w", prefix, b.cfg.URL, plain(o.Err))
		}
		if strings.HasSuffix(o.Key, "/") {
			continue // some tools and services make an object for a directory
		}
		err := each(store.RemoteFile{Name: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size, Modified: o.LastModified})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Remove removes names, with a thousand in each request.
func (b *Bucket) Remove(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan minio.ObjectInfo)
	go func() {
		defer close(gone)
		for _, n := range names {
			select {
			case gone <- minio.ObjectInfo{Key: b.prefix + n}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var errs []error
	for failed := range b.core.RemoveObjects(ctx, b.bucket, gone, minio.RemoveObjectsOptions{}) {
		if err := plain(failed.Err); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove %s: %w", failed.ObjectName, err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}
