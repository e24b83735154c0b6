package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// headerWait is how long a registry may take until it begins to answer.
const headerWait = time.Minute

// ociRegistry is an OCI registry. It uses the credentials of `docker login` or `podman login`.
type ociRegistry struct {
	ref  name.Reference
	http *http.Client
}

func (o *OCI) reference() (name.Reference, error) {
	if o.http {
		return name.ParseReference(o.want, name.Insecure)
	}
	return name.ParseReference(o.want)
}

func (o *OCI) openRegistry(ctx context.Context) (depot, error) {
	ref, err := o.reference()
	if err != nil {
		return nil, err
	}
	repo := ref.Context()
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", repo.RegistryStr(), err)
	}
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it always has this type
	base.ResponseHeaderTimeout = headerWait
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, base, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, registryHint(err, repo.RegistryStr())
	}
	return &ociRegistry{ref: ref, http: &http.Client{Transport: rt}}, nil
}

func (r *ociRegistry) local() bool { return false }

func (r *ociRegistry) close() { r.http.CloseIdleConnections() }

func (r *ociRegistry) top(ctx context.Context) (v1.Descriptor, []byte, error) {
	return r.get(ctx, r.ref)
}

// get fetches a manifest or index. If the reference has a digest, the content is verified.
func (r *ociRegistry) get(ctx context.Context, ref name.Reference) (v1.Descriptor, []byte, error) {
	d, err := remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(r.http.Transport))
	if err != nil {
		return v1.Descriptor{}, nil, registryHint(err, ref.Context().RegistryStr())
	}
	if d.MediaType.IsSchema1() {
		return d.Descriptor, nil, errors.New(
			"its manifest is of the first format, which has no digests; push it again with a Docker of 2017 or later",
		)
	}
	return d.Descriptor, d.Manifest, nil
}

func (r *ociRegistry) document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		_, raw, err := r.get(ctx, r.ref.Context().Digest(d.Digest.String()))
		return raw, err
	}
	body, err := r.blob(ctx, d, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxDocument))
}

// blob fetches a blob from an offset on. If the registry sends all of it, blob drops the beginning.
func (r *ociRegistry) blob(ctx context.Context, d v1.Descriptor, from int64) (io.ReadCloser, error) {
	repo := r.ref.Context()
	u := url.URL{
		Scheme: repo.Scheme(),
		Host:   repo.RegistryStr(),
		Path:   "/v2/" + repo.RepositoryStr() + "/blobs/" + d.Digest.String(),
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, d.Size-1))
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		resp.Body.Close()
		return nil, registryHint(err, repo.RegistryStr())
	}
	if from > 0 && resp.StatusCode == http.StatusOK {
		if _, err := io.CopyN(io.Discard, resp.Body, from); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp.Body, nil
}

// registryHint adds a hint to an error of a registry.
func registryHint(err error, registry string) error {
	var refused *transport.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("registry %s: %w", registry, err)
	}
	switch refused.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf(
			"registry %s lets nobody in without a password, or does not take the one of ~/.docker/config.json "+
				"(run `docker login %s` or `podman login %s` as root): %w",
			registry,
			registry,
			registry,
			err,
		)
	case http.StatusNotFound:
		return fmt.Errorf("registry %s has no such image: %w", registry, err)
	}
	return fmt.Errorf("registry %s: %w", registry, err)
}
