package testkit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Environment returns the environment variables that give a client the keys.
func (s *S3) Environment() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.Access, "AWS_SECRET_ACCESS_KEY=" + s.Secret}
}

// readByAll is a policy that lets everyone read the objects of a bucket.
const readByAll = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/*"]}]}`

// MakeBucket makes a bucket. If it is public, everyone may read its objects.
func (s *S3) MakeBucket(ctx context.Context, name string, public bool) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) }
	client, err := minio.New(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(s.Access, s.Secret, ""), Transport: &http.Transport{DialContext: dial}})
	if err == nil {
		err = client.MakeBucket(ctx, name, minio.MakeBucketOptions{})
	}
	if err == nil && public {
		err = client.SetBucketPolicy(ctx, name, fmt.Sprintf(readByAll, name))
	}
	if err != nil {
		return fmt.Errorf("make bucket %s: %w", name, err)
	}
	return nil
}
