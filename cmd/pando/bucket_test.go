package main

import (
	"context"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/rogpeppe/go-internal/testscript"

	"pando/internal/testkit"
)

// moduleTop is the directory that contains build/bin.
const moduleTop = "../.."

// bucketOf starts an S3 server with a bucket: bucket NAME. $S3 is its URL, and the environment has its keys.
func bucketOf(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := testkit.StartVersityGW(ctx, moduleTop, ts.MkAbs("s3"))
	ts.Check(err)
	ts.Defer(func() { ts.Check(s.Close()) })
	ts.Setenv("S3", s.Endpoint)
	ts.Setenv("AWS_ACCESS_KEY_ID", s.Access)
	ts.Setenv("AWS_SECRET_ACCESS_KEY", s.Secret)
	c, err := minio.New(
		s.Endpoint[len("http://"):],
		&minio.Options{Creds: credentials.NewStaticV4(s.Access, s.Secret, ""), Region: "us-east-1"},
	)
	ts.Check(err)
	ts.Check(c.MakeBucket(ctx, args[0], minio.MakeBucketOptions{}))
}
