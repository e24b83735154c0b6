package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/minio/minio-go/v7"

	"pando/internal/secretfile"
)

// Error means that the bucket cannot be used.
type Error struct {
	Store string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("store %s: %v", e.Store, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Hint says what to do about the error.
func (e *Error) Hint() string {
	var refused *secretfile.Error
	if errors.As(e.Err, &refused) {
		return refused.Hint()
	}
	return "--store-endpoint (or AWS_ENDPOINT_URL) is the base URL of the service; keys come from " +
		"AWS_ACCESS_KEY_ID and " +
		"AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials with AWS_PROFILE; they need to list, get, put and delete in " +
		"the bucket"
}

// plain returns fs.ErrNotExist for a missing name, and adds the service's error code to other errors.
func plain(err error) error {
	if err == nil {
		return nil
	}
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		return err
	}
	if r.Code == minio.NoSuchKey || r.Code != minio.NoSuchBucket && r.StatusCode == http.StatusNotFound {
		return fs.ErrNotExist
	}
	return fmt.Errorf("%w (%s)", err, r.Code)
}
