package s3

import (
	"context"
	"os"
	"testing"
	"time"

	"pando/internal/testkit"
)

// ceph starts a cluster of Ceph with its object gateway.
func ceph(t *testing.T) *testkit.S3 {
	t.Helper()
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("starts a cluster of Ceph; make test-full")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := testkit.StartCeph(ctx, t.TempDir())
	return ready(t, s, err)
}
