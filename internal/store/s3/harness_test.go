package s3

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"pando/internal/store"
	"pando/internal/testkit"
)

// service starts an S3 server (a foreign program) and sets this process's S3 keys.
func service(t *testing.T) *testkit.S3 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := testkit.StartVersityGW(ctx, "../../..", t.TempDir())
	return ready(t, s, err)
}

func ready(t *testing.T, s *testkit.S3, err error) *testkit.S3 {
	t.Helper()
	if errors.Is(err, testkit.ErrNoProgram) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("AWS_ACCESS_KEY_ID", s.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.Secret)
	return s
}

// newBucket makes a bucket with the test's name, and opens it.
func newBucket(t *testing.T, s *testkit.S3, change func(*Config)) *Bucket {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	c := Config{URL: "s3://" + name + "/site", Endpoint: s.Endpoint}
	if change != nil {
		change(&c)
	}
	c = c.FromEnvironment()
	b, err := Open(t.Context(), c)
	if err == nil {
		return b
	}
	var missing *Error
	if !errors.As(err, &missing) || missing.Hint() == "" || !strings.Contains(err.Error(), "no such bucket") {
		t.Fatalf("a bucket that is not there: %v", err)
	}
	if err := connected(t, c).MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err = Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return b
}

func connected(t *testing.T, c Config) *minio.Client {
	t.Helper()
	client, err := connect(c, c.Endpoint, keychain())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newCache opens the store of a bucket as another machine would.
func newCache(t *testing.T, b *Bucket, size int64) *store.Dir {
	t.Helper()
	d, err := store.OpenCache(filepath.Join(t.TempDir(), "cache"), b, size)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// again opens the same bucket as another process would, without cached state.
func again(t *testing.T, b *Bucket) *Bucket {
	t.Helper()
	other, err := Open(t.Context(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return other
}
