package s3

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"pando/internal/chunk"
	"pando/internal/store"
)

// allowReading makes a bucket readable by anybody, as an administrator would.
func allowReading(t *testing.T, b *Bucket) {
	t.Helper()
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/*"]}]}`
	if err := b.core.SetBucketPolicy(t.Context(), b.bucket, fmt.Sprintf(policy, b.bucket)); err != nil {
		t.Fatal(err)
	}
}

// readAsNode reads an object as a node does: from the bucket, or through a server that redirects it.
func readAsNode(t *testing.T, b *Bucket, id chunk.ID) {
	t.Helper()
	url := b.NodeURL()
	if url == "" {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			target, err := b.Sign(r.Context(), id)
			if err != nil || target == "" {
				t.Errorf("sign: %q, %v", target, err)
			}
			http.Redirect(w, r, target, http.StatusTemporaryRedirect)
		}))
		defer front.Close()
		url = front.URL
	}
	source := &store.HTTP{URL: url, Client: store.NewClient(1, nil)}
	v, err := source.Get(t.Context(), chunk.Request{ID: id})
	if err != nil || chunk.Sum(v.Stored()) != id {
		t.Errorf("%s: %v", url, err)
	}
	if _, err := source.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte("other"))}); err == nil &&
		b.NodeURL() != "" {
		t.Error("what is not there was read")
	}
}
